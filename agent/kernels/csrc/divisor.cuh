// Division of indices by a number that the host knows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

// n / by of an n below 2^31: a multiplication, a sum and a shift, where the processor has no division. Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication" (1994).
template <typename Index>
struct Divisor {
    unsigned by, factor, shift;

    explicit Divisor(int64_t number) : by(unsigned(number)), shift(0) {  // from 1 to 2^31
        while ((uint64_t{1} << shift) < by) ++shift;
        factor = unsigned((((uint64_t{1} << shift) - by) << 32) / by + 1);
    }

    __device__ __forceinline__ unsigned of(unsigned n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// The same of an n below 2^63. A division by the processor's own instructions is some 100 of them.
template <>
struct Divisor<int64_t> {
    int64_t by;
    uint64_t factor;
    unsigned shift;

    explicit Divisor(int64_t number) : by(number), shift(0) {  // from 1 to 2^62
        while ((uint64_t{1} << shift) < uint64_t(by)) ++shift;
        const uint64_t above = (uint64_t{1} << shift) - uint64_t(by);
        factor = uint64_t((static_cast<unsigned __int128>(above) << 64) / uint64_t(by) + 1);
    }

    __device__ __forceinline__ int64_t of(int64_t n) const {
        return int64_t((__umul64hi(uint64_t(n), factor) + uint64_t(n)) >> shift);
    }
};

// Whether so many things have indices of 32 bits, which Divisor takes: vectors have them always, as kernels are written,
// and what has more of those is taken element by element.
inline bool is_narrow(int64_t count) { return count <= INT32_MAX; }

}  // namespace kernelwright
