// Backward of small tensors of the contiguous layout in one launch: a block takes a group in all samples, in registers,
// and has all that dweight and dbias of its channels add up.
#pragma once

#include "../../csrc/launched.cuh"
#include "portable_backward.cuh"

namespace kernelwright::group_norm {

constexpr int kSmallElements = 8;  // of a plane that a thread holds, at most

struct SmallGroups {
    int n, groups, group_channels;
    int spatial;
    int team;        // threads that hold a plane: a power of two within a warp
    double inverse;  // 1 / elements of a group in a sample
};

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) short_backward(const Backward b, const SmallGroups g) {
    await_earlier();
    __shared__ Sums of_plane[kMaxThreads];
    __shared__ Pair of_sample[kMaxThreads];
    const int plane = threadIdx.x / g.team;
    const int lane = threadIdx.x % g.team;
    const bool mine = plane < g.n * g.group_channels;
    const int sample = mine ? plane / g.group_channels : 0;
    const int first_channel = blockIdx.x * g.group_channels;
    const int channel = first_channel + plane - sample * g.group_channels;
    const int row = sample * g.groups + blockIdx.x;
    const int64_t start = (int64_t{sample} * b.channels + channel) * g.spatial;
    Affine affine = {};
    float mean = 0.0f, rstd = 0.0f;
    float xhat[kSmallElements], dz[kSmallElements];
    float db = 0.0f, ds = 0.0f;
    if (mine) {
        affine = affine_of<T>(b.weight, b.bias, b.param_dtype, channel);
        mean = b.mean[row];
        rstd = b.rstd[row];
    }
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) {
        const int64_t at = start + lane + j * g.team;
        if (!mine || lane + j * g.team >= g.spatial) break;
        xhat[j] = (to_float(static_cast<const T*>(b.x)[at]) - mean) * rstd;
        Pack<T, 1> residual = {};
        if (reads_residual(b)) residual.v[0] = static_cast<const T*>(b.residual)[at];
        const Pack<T, 1> dy = {static_cast<const T*>(b.dy)[at]};
        dz[j] = before_activation<T, 1>(b, dy, residual, {fmaf(xhat[j], affine.weight, affine.bias)}).v[0];
        db += dz[j];
        ds = fmaf(dz[j], xhat[j], ds);
    }
    for (int offset = g.team / 2; offset > 0; offset /= 2) {
        db += __shfl_xor_sync(0xffffffffu, db, offset);
        ds += __shfl_xor_sync(0xffffffffu, ds, offset);
    }
    if (mine && lane == 0) of_plane[plane] = {db, ds};
    __syncthreads();
    for (int s = threadIdx.x / kWarp; s < g.n; s += blockDim.x / kWarp) {
        Pair total = {0.0, 0.0};
        for (int c = threadIdx.x % kWarp; c < g.group_channels; c += kWarp) {
            const Sums sums = of_plane[s * g.group_channels + c];
            const double weight = parameter<T>(b.weight, b.param_dtype, first_channel + c, 1.0f);
            total = total + Pair{weight * sums.db, weight * sums.ds};
        }
        total = warp_sum(total, kWarp);
        if (threadIdx.x % kWarp == 0) of_sample[s] = total;
    }
    for (int c = threadIdx.x; c < g.group_channels; c += blockDim.x) {
        Pair total = {0.0, 0.0};
        for (int s = 0; s < g.n; ++s) {
            const Sums sums = of_plane[s * g.group_channels + c];
            total = total + Pair{sums.db, sums.ds};
        }
        if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, first_channel + c, static_cast<float>(total.a));
        if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, first_channel + c, static_cast<float>(total.b));
    }
    __syncthreads();
    if (!mine) return;
    const Pair total = of_sample[sample];
    const double inverse = rstd * g.inverse;
    const GroupTerms terms = {static_cast<float>(-total.b * inverse), static_cast<float>(-total.a * inverse)};
    #pragma unroll
    for (int j = 0; j < kSmallElements; ++j) {
        const int64_t at = start + lane + j * g.team;
        if (lane + j * g.team >= g.spatial) break;
        const float dx = fmaf(dz[j], rstd * affine.weight, fmaf(xhat[j], terms.slope, terms.level));
        if (b.dx != nullptr) static_cast<T*>(b.dx)[at] = from_float<T>(dx);
        if (b.dresidual != nullptr) static_cast<T*>(b.dresidual)[at] = from_float<T>(dz[j]);
    }
}

}  // namespace kernelwright::group_norm
