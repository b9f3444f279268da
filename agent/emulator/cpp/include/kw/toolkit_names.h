// Declarations of names from toolkit headers that only nvcc can read, for host code whose kernels run from PTX. They
// suffice for `using` directives, and for device functions, whose bodies never run in g++'s code.
#pragma once

#include <cstdint>

namespace cuda {
namespace experimental {}
namespace ptx {}
namespace std {}
}  // namespace cuda
namespace cub {}
namespace thrust {}

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32 {};
}
namespace experimental {
namespace precision {
struct u4 {};
struct s4 {};
struct b1 {};
}  // namespace precision
}  // namespace experimental

template <class T>
struct Stored {
    using type = T;
};
template <>
struct Stored<precision::tf32> {
    using type = float;
};

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
    static constexpr int num_elements = 8;
    typename Stored<T>::type x[num_elements];
};

template <class Fragment, class T>
void fill_fragment(Fragment&, const T&) {}
template <class Fragment, class T>
void load_matrix_sync(Fragment&, const T*, unsigned) {}
template <class Fragment, class T>
void load_matrix_sync(Fragment&, const T*, unsigned, layout_t) {}
template <class T, class Fragment>
void store_matrix_sync(T*, const Fragment&, unsigned, layout_t) {}
template <class D, class A, class B, class C>
void mma_sync(D&, const A&, const B&, const C&, bool = false) {}
inline float __float_to_tf32(float x) { return x; }

}  // namespace wmma
}  // namespace nvcuda
