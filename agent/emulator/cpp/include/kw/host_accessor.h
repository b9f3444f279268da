// TensorAccessor, and the packed accessors that kernels take by value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kw/host_macros.h"

namespace at {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
class TensorAccessor {
  using Pointer = typename Traits<T>::PtrType;
  Pointer data_;
  const I* sizes_;
  const I* strides_;

 public:
  KW_EVERYWHERE TensorAccessor(Pointer data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  KW_EVERYWHERE I size(I d) const { return sizes_[d]; }
  KW_EVERYWHERE I stride(I d) const { return strides_[d]; }
  KW_EVERYWHERE const I* sizes() const { return sizes_; }
  KW_EVERYWHERE const I* strides() const { return strides_; }
  KW_EVERYWHERE T* data() const { return data_; }
  KW_EVERYWHERE decltype(auto) operator[](I i) const {
    if constexpr (N == 1)
      return (data_[strides_[0] * i]);
    else
      return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
class GenericPackedTensorAccessor {
  using Pointer = typename Traits<T>::PtrType;
  Pointer data_;
  I sizes_[N];
  I strides_[N];

 public:
  GenericPackedTensorAccessor(Pointer data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t d = 0; d < N; ++d) {
      sizes_[d] = static_cast<I>(sizes[d]);
      strides_[d] = static_cast<I>(strides[d]);
    }
  }
  KW_EVERYWHERE I size(I d) const { return sizes_[d]; }
  KW_EVERYWHERE I stride(I d) const { return strides_[d]; }
  KW_EVERYWHERE T* data() const { return data_; }
  KW_EVERYWHERE decltype(auto) operator[](I i) const {
    if constexpr (N == 1)
      return (data_[strides_[0] * i]);
    else
      return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, I>;

}  // namespace at
