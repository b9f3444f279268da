// Forward for contiguous rows of at most one pack per thread (kShortThreads threads): one launch, with a row in the
// registers of a block. So little is read that the fixed work per thread decides the time. Therefore indices have 32
// bits, and the threads of a row wait for a single round of sums.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "portable_forward.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

constexpr int kShortThreads = 1024;

struct ShortRows {
    int rows;
    int length;
    int spatial;
    int groups, group_channels;
    double inverse;  // 1 / elements of a row
    Divisor<int> by_spatial, by_groups;
};

// Stores act(z + residual) to y for the elements of one pack.
template <typename T, int V>
__device__ __forceinline__ void store_result(const Forward& f, int64_t at, Pack<float, V> z) {
    if (f.residual != nullptr) {
        const auto residual = *reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(f.residual) + at);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
    }
    if (f.act == kSilu) {  // inlined, since it is the activation of most models
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            z.v[k] = sizeof(T) == 2 ? __fdividef(z.v[k], 1.0f + __expf(-z.v[k])) : activate(kSilu, z.v[k]);
        }
    } else if (f.act != kNone) {
        z = activate_pack<V>(f.act, z);
    }
    Pack<T, V> y;
    #pragma unroll
    for (int k = 0; k < V; ++k) y.v[k] = from_float<T>(z.v[k]);
    *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(f.y) + at) = y;
}

// Returns z of the pack that begins with element `first` of a row, for planes shorter than packs. Not inlined, so that
// other calls need not fetch its code.
template <typename T, int V>
__device__ __noinline__ Pack<float, V> of_short_planes(const void* weight, const void* bias, int64_t param_dtype,
                                                       Divisor<int> by_spatial, Moments m, Raw held, int channel,
                                                       int first) {
    const auto pack = elements_of<T>(held);
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const int mine = channel + quotient(first + k, by_spatial);
        const Line of_lane = line_of(m, affine_of<T>(weight, bias, param_dtype, mine));
        z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, of_lane.scale, of_lane.level);
    }
    return z;
}

// Normalises a row per block, or several rows: in blocks that are one warp wide along x, y counts rows.
template <typename T>
__global__ void __launch_bounds__(kShortThreads) short_forward(const Forward f, const ShortRows r) {
    await_earlier();
    constexpr int V = 16 / sizeof(T);
    constexpr int kWarps = kShortThreads / kWarp;
    __shared__ double of_warp[2][kWarps];
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= r.rows) return;  // a row has whole warps, so whole warps exit
    const int64_t start = int64_t{row} * r.length;
    const T* x = static_cast<const T*>(f.x) + start;
    const int head = head_of<T, V>(x);
    const int packs = (r.length - head) / V;
    const int channel = (row - quotient(row, r.by_groups) * r.groups) * r.group_channels;
    const int first = head + static_cast<int>(threadIdx.x) * V;  // first element of this thread's pack
    const bool has_pack = static_cast<int>(threadIdx.x) < packs;
    Raw held;
    StoredAffine here, next;  // converted only when needed: no instruction waits for the loads until then
    int left;  // lanes from `left` on belong to the next channel
    if (has_pack) {
        held = *reinterpret_cast<const Raw*>(x + first);
        const int mine = quotient(first, r.by_spatial);
        left = (mine + 1) * r.spatial - first;
        here = next = stored_affine<T>(f.weight, f.bias, f.param_dtype, channel + mine);
        if (left < V && r.spatial >= V) next = stored_affine<T>(f.weight, f.bias, f.param_dtype, channel + mine + 1);
    }
    const int end = end_of<V>(threadIdx.x, head, r.length);
    StoredAffine of_end = {};
    float at_end = 0.0f;
    if (end >= 0) {
        of_end = stored_affine<T>(f.weight, f.bias, f.param_dtype, channel + quotient(end, r.by_spatial));
        at_end = to_float(x[end]);
    }

    // Sums a thread's values relative to the first of them; the threads' sums are combined in double.
    const auto pack = elements_of<T>(held);
    Run run;
    run.start(has_pack ? to_float(pack.v[0]) : at_end);
    if (has_pack) {
        #pragma unroll
        for (const T value : pack.v) run.add(to_float(value));
    }
    if (end >= 0) run.add(at_end);
    const Moments m = moments_of(row_sum(run.total(), of_warp), r.inverse, f.eps);
    if (threadIdx.x == 0) keep_moments(f, row, m);

    if (has_pack) {
        Pack<float, V> z;
        if (r.spatial >= V) {
            const Line line = line_of(m, widened<T>(here)), line_after = line_of(m, widened<T>(next));
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const bool is_here = k < left;
                z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, is_here ? line.scale : line_after.scale,
                              is_here ? line.level : line_after.level);
            }
        } else {
            z = of_short_planes<T, V>(f.weight, f.bias, f.param_dtype, r.by_spatial, m, held, channel, first);
        }
        store_result<T, V>(f, start + first, z);
    }
    if (end >= 0) {
        const Line line = line_of(m, widened<T>(of_end));
        store_result<T, 1>(f, start + end, {fmaf(at_end - m.mean, line.scale, line.level)});
    }
}

}  // namespace kernelwright::group_norm
