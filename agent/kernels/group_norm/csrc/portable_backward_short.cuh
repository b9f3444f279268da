// Backward for small tensors in the contiguous layout, in one launch. A block holds a group of all samples in
// registers, and therefore all terms of dweight and dbias of its channels.
#pragma once

#include <type_traits>

#include "../../csrc/launched.cuh"
#include "portable_backward.cuh"

namespace kernelwright::group_norm {

constexpr int kSmallElements = 8;  // maximum elements of a plane that a thread holds

struct SmallGroups {
    int n, groups, group_channels;
    int spatial;
    int log_team;    // log2 of the number of threads that hold a plane
    double inverse;  // 1 / elements of a group in a sample
    Divisor<int> by_channels;
};

// A thread's elements of a plane: first, first + step, ... below `end`.
struct Places {
    int first, step, end;

    __device__ __forceinline__ int at(int j) const { return first + j * step; }
    __device__ __forceinline__ bool has(int j) const { return at(j) < end; }
};

template <typename T>
using Few = Pack<T, kSmallElements>;

// Elements as loaded. PACKED: contiguous and aligned to their total size. Code that issues all loads before it converts
// an element waits for memory only once.
template <typename T, bool PACKED>
struct HeldFew {
    std::conditional_t<PACKED, Raw, T> held[PACKED ? sizeof(Few<T>) / sizeof(Raw) : kSmallElements];

    __device__ __forceinline__ void load(const void* tensor, int64_t plane, const Places& places) {
        const T* from = static_cast<const T*>(tensor) + plane;
        if constexpr (PACKED) {
            #pragma unroll
            for (int i = 0; i < static_cast<int>(sizeof(Few<T>) / sizeof(Raw)); ++i) {
                held[i] = reinterpret_cast<const Raw*>(from + places.first)[i];
            }
        } else {
            #pragma unroll
            for (int j = 0; j < kSmallElements; ++j) {
                if (places.has(j)) held[j] = from[places.at(j)];
            }
        }
    }
    __device__ __forceinline__ Few<T> elements() const { return reinterpret_cast<const Few<T>&>(held); }
};

template <typename T, bool PACKED>
__device__ __forceinline__ void store_few(void* tensor, int64_t plane, const Places& places, const Few<float>& values) {
    T* to = static_cast<T*>(tensor) + plane;
    Few<T> few;
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) few.v[j] = from_float<T>(values.v[j]);
    if constexpr (PACKED) {
        *reinterpret_cast<Few<T>*>(to + places.first) = few;
    } else {
        #pragma unroll
        for (int j = 0; j < kSmallElements; ++j) {
            if (places.has(j)) to[places.at(j)] = few.v[j];
        }
    }
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(kMaxThreads) short_backward(const Backward b, const SmallGroups g) {
    await_earlier();
    __shared__ Sums of_part[kMaxThreads];  // sums of a plane, one for each of its warps if it has several
    __shared__ float weights[kMaxThreads];
    __shared__ Pair of_sample[kMaxThreads];
    const int thread = threadIdx.x;
    const int team = 1 << g.log_team;
    const int lane = thread & (team - 1);
    const int plane = thread >> g.log_team;
    const bool mine = plane < g.n * g.group_channels;
    const int sample = mine ? quotient(plane, g.by_channels) : 0;
    const int first_channel = blockIdx.x * g.group_channels;
    const int channel = first_channel + plane - sample * g.group_channels;
    const int row = sample * g.groups + blockIdx.x;
    const int64_t start = (int64_t{sample} * b.channels + channel) * g.spatial;
    const Places places = {PACKED ? lane * kSmallElements : lane, PACKED ? 1 : team, mine ? g.spatial : 0};
    const bool has_any = places.has(0);
    // Issues all loads together.
    HeldFew<T, PACKED> x = {}, dy = {}, residual = {};
    StoredAffine stored = {};
    float mean = 0.0f, rstd = 0.0f;
    if (has_any) {
        x.load(b.x, start, places);
        dy.load(b.dy, start, places);
        if (reads_residual(b)) residual.load(b.residual, start, places);
        stored = stored_affine<T>(b.weight, b.bias, b.param_dtype, channel);
        mean = b.mean[row];
        rstd = b.rstd[row];
    }
    const Affine affine = widened<T>(stored);
    const Few<T> values = x.elements();
    Few<float> xhat, z;
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) {
        xhat.v[j] = (to_float(values.v[j]) - mean) * rstd;
        z.v[j] = fmaf(xhat.v[j], affine.weight, affine.bias);
    }
    const Few<float> dz = before_activation<T, kSmallElements>(b, dy.elements(), residual.elements(), z);
    float db = 0.0f, ds = 0.0f;
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) {  // missing elements have dy = 0
        db += dz.v[j];
        ds = fmaf(dz.v[j], xhat.v[j], ds);
    }
    const int width = team < kWarp ? team : kWarp;
    for (int offset = width / 2; offset > 0; offset /= 2) {
        db += __shfl_xor_sync(0xffffffffu, db, offset);
        ds += __shfl_xor_sync(0xffffffffu, ds, offset);
    }
    constexpr int kLogWarp = 5;
    const int log_width = g.log_team < kLogWarp ? g.log_team : kLogWarp;
    const int log_parts = g.log_team - log_width;
    if (mine && (lane & (width - 1)) == 0) {
        of_part[thread >> log_width] = {db, ds};
        if (lane == 0) weights[plane] = affine.weight;
    }
    __syncthreads();
    // Returns the contribution of a plane to its channel.
    const auto of_plane = [&](int number) {
        Pair total = {0.0, 0.0};
        #pragma unroll 1
        for (int part = 0; part < 1 << log_parts; ++part) {
            const Sums sums = of_part[(number << log_parts) + part];
            total = total + Pair{sums.db, sums.ds};
        }
        return total;
    };
    #pragma unroll 1
    for (int s = thread / kWarp; s < g.n; s += blockDim.x / kWarp) {
        Pair total = {0.0, 0.0};
        #pragma unroll 1
        for (int c = thread % kWarp; c < g.group_channels; c += kWarp) {
            const Pair sums = of_plane(s * g.group_channels + c);
            const double weight = weights[c];
            total = total + Pair{weight * sums.a, weight * sums.b};
        }
        total = pair_of_halves(sum_by_halves(total));
        if (thread % kWarp == 0) of_sample[s] = total;
    }
    // Counts from the last thread downwards: the first threads still sum the samples.
    #pragma unroll 1
    for (int c = blockDim.x - 1 - thread; c < g.group_channels; c += blockDim.x) {
        Pair total = {0.0, 0.0};
        #pragma unroll 1
        for (int s = 0; s < g.n; ++s) total = total + of_plane(s * g.group_channels + c);
        if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, first_channel + c, static_cast<float>(total.a));
        if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, first_channel + c, static_cast<float>(total.b));
    }
    __syncthreads();
    if (!has_any) return;
    const Pair total = of_sample[sample];
    const double inverse = rstd * g.inverse;
    const GroupTerms terms = {static_cast<float>(-total.b * inverse), static_cast<float>(-total.a * inverse)};
    Few<float> dx;
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) {
        dx.v[j] = fmaf(dz.v[j], rstd * affine.weight, fmaf(xhat.v[j], terms.slope, terms.level));
    }
    if (b.dx != nullptr) store_few<T, PACKED>(b.dx, start, places, dx);
    if (b.dresidual != nullptr) store_few<T, PACKED>(b.dresidual, start, places, dz);
}

}  // namespace kernelwright::group_norm
