// LayerNorm and RMSNorm over contiguous rows: declarations for forward and backward. Statistics are in float32.
#pragma once

#include <cstring>
#include <type_traits>

#include "block.cuh"

namespace kernelwright {

// y = (x - mean) * rstd * weight + bias over the last dimension of [rows, length]. RMSNorm has no mean.
struct RowForward {
    const void* x;
    const void* weight;  // param_dtype [length], or null
    const void* bias;    // param_dtype [length], or null
    void* y;
    float* mean;  // [rows], or null if not wanted
    float* rstd;
    int64_t rows, length;
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

struct RowBackward {
    const void* dy;
    const void* x;
    const void* weight;
    const float* mean;
    const float* rstd;
    void* dx;       // null if not wanted
    void* dweight;  // param_dtype [length], or null
    void* dbias;
    void* workspace;  // row_backward_workspace bytes
    int64_t rows, length;
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
};

__device__ __forceinline__ float2 to_floats(__half2 two) { return __half22float2(two); }
__device__ __forceinline__ float2 to_floats(__nv_bfloat162 two) {
    uint32_t word;  // both elements at once, each the upper half of a float; CUDA's own function splits the word first
    memcpy(&word, &two, sizeof word);
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

template <typename Two>
__device__ __forceinline__ Two from_floats(float a, float b) {
    if constexpr (std::is_same_v<Two, __half2>) return __floats2half2_rn(a, b);
    else return __floats2bfloat162_rn(a, b);
}

// Returns true if rows and parameters can be read in vectors of T. A null pointer counts as aligned: it is never loaded
// from.
template <typename T, typename... Tensors>
bool in_vectors(int64_t length, const Tensors*... tensors) {
    return length % kVector<T> == 0 && (aligned(tensors) && ...);
}

// Pair of 16-bit elements. Elements are converted in pairs: one by one, the compiler spends an instruction on each to
// extract it from its word.
template <typename T>
using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;

template <typename T, int V>
constexpr bool kInTwos = V % 2 == 0 && sizeof(T) == sizeof(__half);

// Conversions of a pack to float and back. The caller copies a pack from memory first: through the reference it would
// be loaded element by element.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> widened(const Pack<T, V>& pack) {
    Pack<float, V> wide;
    #pragma unroll
    for (int k = 0; k < V; k += kInTwos<T, V> ? 2 : 1) {
        if constexpr (kInTwos<T, V>) {
            Two<T> two;
            memcpy(&two, &pack.v[k], sizeof two);
            const float2 both = to_floats(two);
            wide.v[k] = both.x;
            wide.v[k + 1] = both.y;
        } else {
            wide.v[k] = to_float(pack.v[k]);
        }
    }
    return wide;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> narrowed(const Pack<float, V>& wide) {
    Pack<T, V> pack;
    #pragma unroll
    for (int k = 0; k < V; k += kInTwos<T, V> ? 2 : 1) {
        if constexpr (kInTwos<T, V>) {
            const Two<T> two = from_floats<Two<T>>(wide.v[k], wide.v[k + 1]);
            memcpy(&pack.v[k], &two, sizeof two);
        } else {
            pack.v[k] = from_float<T>(wide.v[k]);
        }
    }
    return pack;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> filled(float value) {
    Pack<float, V> wide;
    #pragma unroll
    for (int k = 0; k < V; ++k) wide.v[k] = value;
    return narrowed<T>(wide);
}

// Returns pack `at` of parameters stored as P, as floats, with loads of up to 16 bytes.
template <typename P, int V>
__device__ __forceinline__ Pack<float, V> parameter_pack(const void* values, int64_t at) {
    constexpr int kEach = V < kVector<P> ? V : kVector<P>;
    Pack<float, V> wide;
    #pragma unroll
    for (int k = 0; k < V; k += kEach) {
        const Pack<P, kEach> stored = static_cast<const Pack<P, kEach>*>(values)[(at * V + k) / kEach];
        const Pack<float, kEach> some = widened(stored);
        #pragma unroll
        for (int i = 0; i < kEach; ++i) wide.v[k + i] = some.v[i];
    }
    return wide;
}

// Calls f(P{}) with the dtype of parameters beside elements of T. The branch is taken at run time, since an instance
// for each combination of dtypes would take long to compile and rarely run. It is not taken per pack, which would
// serialise the loads.
template <typename T, typename F>
__device__ __forceinline__ void with_parameters(bool wide, F f) {
    if constexpr (sizeof(T) == sizeof(float)) f(T{});
    else if (wide) f(float{});
    else f(T{});
}

// Weight or bias, in the dtype of the elements, or in float32 if `wide`.
struct Parameter {
    const void* values;  // or null
    bool wide;

    // Returns pack `at` as floats.
    template <typename T, int V>
    __device__ __forceinline__ Pack<float, V> pack(int64_t at) const {
        return sizeof(T) < sizeof(float) && wide ? parameter_pack<float, V>(values, at) : parameter_pack<T, V>(values, at);
    }

    // Stores pack `at` in the parameter's own dtype.
    template <typename T, int V>
    __device__ __forceinline__ void set_pack(int64_t at, const Pack<float, V>& pack) const {
        if (wide) const_cast<Pack<float, V>*>(static_cast<const Pack<float, V>*>(values))[at] = pack;
        else const_cast<Pack<T, V>*>(static_cast<const Pack<T, V>*>(values))[at] = narrowed<T>(pack);
    }
};

template <typename Args>
Parameter weight_of(const Args& args) { return {args.weight, args.param_dtype == kFloat32}; }

template <typename Args>
Parameter bias_of(const Args& args) { return {args.bias, args.param_dtype == kFloat32}; }

// Calls f(T{}) for the dtype of the elements. The dtype of the parameters must be the same or float32.
template <typename F>
cudaError_t with_elements(int64_t dtype, int64_t param_dtype, F f) {
    return param_dtype == dtype || param_dtype == kFloat32 ? with_dtype(dtype, f) : cudaErrorInvalidValue;
}

// Stores values[at] = value in the dtype of the parameters.
template <typename T>
__device__ __forceinline__ void set_parameter(void* values, bool wide, int64_t at, float value) {
    if (wide) static_cast<float*>(values)[at] = value;
    else static_cast<T*>(values)[at] = from_float<T>(value);
}

// Keeps 16-bit elements packed: the compiler would keep their float conversions, in twice the registers.
template <typename T, int V>
__device__ __forceinline__ void keep_as_stored(Pack<T, V>& pack) {
    if constexpr (sizeof(T) < sizeof(float) && sizeof(pack) == sizeof(uint4)) {
        uint4 words;
        memcpy(&words, &pack, sizeof words);
        asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
        memcpy(&pack, &words, sizeof words);
    }
}

// Calls f(u, at) for each of a thread's kPacks packs inside the row. `at` starts at `first` in strides of `step`.
template <int kPacks, typename Place, typename F>
__device__ __forceinline__ void each_pack(
    Place first, std::common_type_t<Place> step, std::common_type_t<Place> packs, F f) {
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const Place at = first + u * step;
        if (at < packs) f(u, at);
    }
}

}  // namespace kernelwright
