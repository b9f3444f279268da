"""Verified kernel for running_mean_gate, made by kernelwright 0.1.0.

Run:       20261125-233811-running_mean_gate-1c13, attempt 1 (model)
Problem:   running_mean_gate (source 477ab64813dd8dad)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  13.5% of the allowed error, 15 draws
Measured:  0.2086 ms median (p20 0.2082, p80 0.2093) on NVIDIA H100 80GB HBM3, 1.29x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int THREADS = 256;
constexpr int TX = 8;                 // float4s of channels of a block
constexpr int GROUPS = THREADS / TX;  // 32 groups of steps
constexpr int R = 4;                  // steps of a thread
constexpr int TILE = GROUPS * R;      // 128 steps
constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ float4 up4(float4 a, int o) {
    return make_float4(__shfl_up_sync(0xffffffffu, a.x, o), __shfl_up_sync(0xffffffffu, a.y, o),
                       __shfl_up_sync(0xffffffffu, a.z, o), __shfl_up_sync(0xffffffffu, a.w, o));
}
__device__ __forceinline__ float gate(float x, float mean) {
    return __fdividef(x, 1.0f + __expf(mean - x));
}

__global__ void __launch_bounds__(THREADS, 4) running_mean_gate_kernel(
    const float* __restrict__ x, float* __restrict__ y, int steps, int channels, int slices) {
    __shared__ float4 scratch[2][WARPS][TX];
    const int batch = blockIdx.x / slices;
    const int slice = blockIdx.x - batch * slices;
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int tx = threadIdx.x & (TX - 1);
    const int group = threadIdx.x / TX;
    const int channel = slice * (TX * 4) + tx * 4;
    const bool inside = channel < channels;
    const int64_t start = static_cast<int64_t>(batch) * steps * channels + channel;
    const float* px = x + start;
    float* py = y + start;
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

    float4 next[R];
    #pragma unroll
    for (int i = 0; i < R; ++i) {
        const int t = group * R + i;
        next[i] = (inside && t < steps)
            ? __ldcs(reinterpret_cast<const float4*>(px + static_cast<int64_t>(t) * channels)) : zero;
    }
    float4 carry = zero;
    int parity = 0;
    for (int base = 0; base < steps; base += TILE) {
        float4 v[R];
        #pragma unroll
        for (int i = 0; i < R; ++i) v[i] = next[i];
        #pragma unroll
        for (int i = 0; i < R; ++i) {
            const int t = base + TILE + group * R + i;
            next[i] = (inside && t < steps)
                ? __ldcs(reinterpret_cast<const float4*>(px + static_cast<int64_t>(t) * channels)) : zero;
        }
        float4 own = add4(add4(v[0], v[1]), add4(v[2], v[3]));
        // inclusive over the four groups of the warp
        float4 inc = own;
        {
            const float4 a = up4(inc, 8);
            if (lane >= 8) inc = add4(inc, a);
            const float4 b = up4(inc, 16);
            if (lane >= 16) inc = add4(inc, b);
        }
        float4 exc = up4(inc, 8);
        if (lane < 8) exc = zero;
        if (lane >= 24) scratch[parity][warp][tx] = inc;
        __syncthreads();
        float4 before = zero;
        float4 total = zero;
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            if (w == warp) before = total;
            total = add4(total, scratch[parity][w][tx]);
        }
        parity ^= 1;
        float4 run = add4(carry, add4(before, exc));
        carry = add4(carry, total);
        #pragma unroll
        for (int i = 0; i < R; ++i) {
            const int t = base + group * R + i;
            run = add4(run, v[i]);
            const float inv = 1.0f / static_cast<float>(t + 1);
            float4 o;
            o.x = gate(v[i].x, run.x * inv);
            o.y = gate(v[i].y, run.y * inv);
            o.z = gate(v[i].z, run.z * inv);
            o.w = gate(v[i].w, run.w * inv);
            if (inside && t < steps)
                __stcs(reinterpret_cast<float4*>(py + static_cast<int64_t>(t) * channels), o);
        }
    }
}

__global__ void running_mean_gate_any_kernel(const float* __restrict__ x, float* __restrict__ y,
                                             int64_t steps, int64_t channels, int64_t columns) {
    const int64_t c = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (c >= columns) return;
    const int64_t batch = c / channels;
    const int64_t start = batch * steps * channels + (c - batch * channels);
    double run = 0.0;
    for (int64_t t = 0; t < steps; ++t) {
        const float a = x[start + t * channels];
        run += a;
        y[start + t * channels] = gate(a, static_cast<float>(run / static_cast<double>(t + 1)));
    }
}

torch::Tensor running_mean_gate_cuda(torch::Tensor x_) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    TORCH_CHECK(x.dim() == 3 && x.scalar_type() == torch::kFloat32, "expected float32 (batch, steps, channels)");
    auto y = torch::empty_like(x);
    if (x.numel() == 0) return y;
    const int64_t batches = x.size(0), steps = x.size(1), channels = x.size(2);
    auto stream = at::cuda::getCurrentCUDAStream();
    const bool aligned = (reinterpret_cast<uintptr_t>(x.data_ptr<float>()) |
                          reinterpret_cast<uintptr_t>(y.data_ptr<float>())) % 16 == 0;
    if (channels % 4 == 0 && steps < (1 << 24) && aligned) {
        const int slices = static_cast<int>((channels + TX * 4 - 1) / (TX * 4));
        running_mean_gate_kernel<<<static_cast<unsigned>(batches * slices), THREADS, 0, stream>>>(
            x.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(steps), static_cast<int>(channels), slices);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        const int64_t columns = batches * channels;
        running_mean_gate_any_kernel<<<static_cast<unsigned>((columns + 127) / 128), 128, 0, stream>>>(
            x.data_ptr<float>(), y.data_ptr<float>(), steps, channels, columns);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}
"""

cpp_source = "torch::Tensor running_mean_gate_cuda(torch::Tensor x_);"

extension = load_inline(
    name="running_mean_gate",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["running_mean_gate_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.running_mean_gate_cuda(x)
