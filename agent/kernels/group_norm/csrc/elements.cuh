// Access to a tensor's elements in 16-byte packs as float, and parameters of either dtype. Independent of GroupNorm.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "../../csrc/divisor.cuh"
#include "../../csrc/element.cuh"
#include "interface.h"

namespace kernelwright::group_norm {

// A parameter in its storage type. Code that loads several parameters before it converts one waits for memory only
// once.
struct Stored {
    uint32_t bits;
    bool is_wide;
};

// Loads element `index` of a parameter stored as float (kFloat32) or as T; `absent` if there is no parameter.
template <typename T>
__device__ __forceinline__ Stored stored(const void* values, int64_t dtype, int64_t index, float absent) {
    if (values == nullptr) return {__float_as_uint(absent), true};
    if (sizeof(T) == sizeof(float) || dtype == kFloat32) return {static_cast<const uint32_t*>(values)[index], true};
    return {static_cast<const uint16_t*>(values)[index], false};
}

template <typename T>
__device__ __forceinline__ float widened(const Stored& parameter) {
    if (sizeof(T) == sizeof(float) || parameter.is_wide) return __uint_as_float(parameter.bits);
    const auto bits = static_cast<uint16_t>(parameter.bits);
    return to_float(reinterpret_cast<const T&>(bits));
}

template <typename T>
__device__ __forceinline__ float parameter(const void* values, int64_t dtype, int64_t index, float absent) {
    return widened<T>(stored<T>(values, dtype, index, absent));
}

struct Affine {
    float weight;
    float bias;
};

struct StoredAffine {
    Stored weight;
    Stored bias;
};

// Loads weight and bias of one channel.
template <typename T>
__device__ __forceinline__ StoredAffine stored_affine(const void* weight, const void* bias, int64_t dtype,
                                                      int64_t channel) {
    return {stored<T>(weight, dtype, channel, 1.0f), stored<T>(bias, dtype, channel, 0.0f)};
}

template <typename T>
__device__ __forceinline__ Affine widened(const StoredAffine& affine) {
    return {widened<T>(affine.weight), widened<T>(affine.bias)};
}

// Returns weight and bias of a channel as floats. Not inlined: at each lane where the channel may change, it would
// dominate the code size.
template <typename T>
__device__ __noinline__ Affine affine_of(const void* weight, const void* bias, int64_t dtype, int64_t channel) {
    return widened<T>(stored_affine<T>(weight, bias, dtype, channel));
}

template <typename T>
__device__ __forceinline__ void set_parameter(void* values, int64_t dtype, int64_t index, float value) {
    if (dtype == kFloat32) {
        static_cast<float*>(values)[index] = value;
    } else {
        static_cast<T*>(values)[index] = from_float<T>(value);
    }
}

// Returns the lead of a row of `length` elements, which may have any alignment. Its packs are aligned to 16 bytes: lane
// k of pack i is element i * V - lead + k. The first and the last pack may be partial; each whole pack is a single
// access.
template <typename T, int V>
__device__ __forceinline__ int lead_of(const T* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % V);
}

// Returns the number of elements before a row's first whole pack. They and those after its last whole pack, at most V -
// 1 each, are the row's ends.
template <typename T, int V>
__device__ __forceinline__ int head_of(const T* row) {
    return (V - lead_of<T, V>(row)) % V;
}

// Returns the index of the end element that thread `mine` handles, or -1.
template <int V>
__device__ __forceinline__ int end_of(int mine, int head, int length) {
    const int tail = (length - head) % V;
    if (mine < 0 || mine >= head + tail) return -1;
    return mine < head ? mine : length - tail + mine - head;
}

// Returns true if the row has the element. Indices of a row are int64_t, or int if all rows are short.
template <typename I>
__device__ __forceinline__ bool inside(I element, I length) {
    return element >= 0 && element < length;
}

template <int V, typename I>
__device__ __forceinline__ bool whole(I first, I length) {
    return first >= 0 && first + V <= length;
}

// Loads the pack whose lane 0 is element `first`. Lanes outside the row are zero.
template <typename T, int V, typename I>
__device__ __forceinline__ Pack<T, V> load_pack(const T* row, I first, I length) {
    if (whole<V>(first, length)) return *reinterpret_cast<const Pack<T, V>*>(row + first);
    Pack<T, V> pack;
    #pragma unroll
    for (int k = 0; k < V; ++k) pack.v[k] = inside(first + k, length) ? row[first + k] : from_float<T>(0.0f);
    return pack;
}

template <typename T, int V, typename I>
__device__ __forceinline__ void store_pack(T* row, I first, I length, const Pack<T, V>& pack) {
    if (whole<V>(first, length)) {
        *reinterpret_cast<Pack<T, V>*>(row + first) = pack;
        return;
    }
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        if (inside(first + k, length)) row[first + k] = pack.v[k];
    }
}

// 16 bytes as registers hold them. As separate elements, every 16-bit element would take a register.
using Raw = float4;

template <typename T>
__device__ __forceinline__ Pack<T, 16 / sizeof(T)> elements_of(const Raw& raw) {
    return reinterpret_cast<const Pack<T, 16 / sizeof(T)>&>(raw);
}

template <typename T>
__device__ __forceinline__ Pack<T, 1> elements_of(const Pack<T, 1>& pack) {
    return pack;
}

// Type that holds a pack between load and use.
template <typename T, int V>
using Held = std::conditional_t<V == 1, Pack<T, 1>, Raw>;

template <typename T, int V, typename I>
__device__ __forceinline__ Held<T, V> load_held(const T* row, I first, I length) {
    if (whole<V>(first, length)) return *reinterpret_cast<const Held<T, V>*>(row + first);
    const Pack<T, V> pack = load_pack<T, V>(row, first, length);
    return reinterpret_cast<const Held<T, V>&>(pack);
}

// Divides indices. A 64-bit division costs some five times as much as a 32-bit one, and few tensors need it.
__device__ __noinline__ int64_t wide_quotient(int64_t a, int64_t b) { return a / b; }

__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b) {
    if ((static_cast<uint64_t>(a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return wide_quotient(a, b);
}

// Divides a non-negative index by a divisor known on the host.
__device__ __forceinline__ int quotient(int a, const Divisor<int>& by) {
    return static_cast<int>(by.of(static_cast<unsigned>(a)));
}

struct Split {
    int64_t quotient;
    int64_t remainder;
};

__device__ __forceinline__ Split split(int64_t a, int64_t b) {
    const int64_t q = quotient(a, b);
    return {q, a - q * b};
}

}  // namespace kernelwright::group_norm
