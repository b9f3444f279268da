"""Verified kernel for causal_depthwise_conv_silu, made by kernelwright 0.1.0.

Run:       20261125-233627-causal_depthwise_con-8dc3, attempt 1 (model)
Problem:   causal_depthwise_conv_silu (source 036ae7a5c0f8710b)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  7.4% of the allowed error, 15 draws
Measured:  0.184 ms median (p20 0.1836, p80 0.1841) on NVIDIA H100 80GB HBM3, 4.66x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

__device__ __forceinline__ float silu(float x) {
    return __fdividef(x, 1.0f + __expf(-x));
}

constexpr int THREADS = 128;
constexpr int VEC = 4;

// four taps, steps a multiple of 4; blockIdx.x: row, blockIdx.y: piece of THREADS * VEC float4s
__global__ void __launch_bounds__(THREADS) conv4_silu_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int channels, int n4) {
    const int64_t row = blockIdx.x;
    const int channel = static_cast<int>(row % channels);
    const float4* src = reinterpret_cast<const float4*>(x) + row * n4;
    float4* dst = reinterpret_cast<float4*>(y) + row * n4;
    const int first = blockIdx.y * (THREADS * VEC) + threadIdx.x;
    const int lane = threadIdx.x & 31;
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

    float4 a[VEC];
    #pragma unroll
    for (int i = 0; i < VEC; ++i) {
        const int t = first + i * THREADS;
        a[i] = t < n4 ? __ldg(src + t) : zero;
    }
    float4 edge[VEC];
    #pragma unroll
    for (int i = 0; i < VEC; ++i) {
        const int t = first + i * THREADS;
        edge[i] = (lane == 0 && t > 0 && t < n4) ? __ldg(src + t - 1) : zero;
    }
    const float w0 = __ldg(weight + channel * 4);
    const float w1 = __ldg(weight + channel * 4 + 1);
    const float w2 = __ldg(weight + channel * 4 + 2);
    const float w3 = __ldg(weight + channel * 4 + 3);
    const float b = bias != nullptr ? __ldg(bias + channel) : 0.0f;

    #pragma unroll
    for (int i = 0; i < VEC; ++i) {
        const int t = first + i * THREADS;
        float p1 = __shfl_up_sync(0xffffffffu, a[i].y, 1);
        float p2 = __shfl_up_sync(0xffffffffu, a[i].z, 1);
        float p3 = __shfl_up_sync(0xffffffffu, a[i].w, 1);
        if (lane == 0) { p1 = edge[i].y; p2 = edge[i].z; p3 = edge[i].w; }
        float4 r;
        r.x = fmaf(w3, a[i].x, fmaf(w2, p3, fmaf(w1, p2, fmaf(w0, p1, b))));
        r.y = fmaf(w3, a[i].y, fmaf(w2, a[i].x, fmaf(w1, p3, fmaf(w0, p2, b))));
        r.z = fmaf(w3, a[i].z, fmaf(w2, a[i].y, fmaf(w1, a[i].x, fmaf(w0, p3, b))));
        r.w = fmaf(w3, a[i].w, fmaf(w2, a[i].z, fmaf(w1, a[i].y, fmaf(w0, a[i].x, b))));
        r.x = silu(r.x);
        r.y = silu(r.y);
        r.z = silu(r.z);
        r.w = silu(r.w);
        if (t < n4) __stcs(dst + t, r);
    }
}

__global__ void conv_silu_any_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int channels, int64_t steps, int taps, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    const int64_t row = i / steps;
    const int64_t t = i - row * steps;
    const int channel = static_cast<int>(row % channels);
    float s = bias != nullptr ? bias[channel] : 0.0f;
    for (int r = 0; r < taps; ++r) {
        const int64_t u = t - (taps - 1) + r;
        if (u >= 0) s = fmaf(weight[static_cast<int64_t>(channel) * taps + r], x[row * steps + u], s);
    }
    y[i] = silu(s);
}

torch::Tensor causal_conv_silu_cuda(torch::Tensor x_, torch::Tensor weight_, torch::Tensor bias_) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    auto weight = weight_.contiguous();
    auto bias = bias_.contiguous();
    TORCH_CHECK(x.dim() == 3 && x.scalar_type() == torch::kFloat32, "expected float32 (batch, channels, steps)");
    auto y = torch::empty_like(x);
    const int64_t n = x.numel();
    if (n == 0) return y;
    const int channels = static_cast<int>(x.size(1));
    const int64_t steps = x.size(2);
    const int taps = static_cast<int>(weight.size(2));
    auto stream = at::cuda::getCurrentCUDAStream();
    const bool aligned = reinterpret_cast<uintptr_t>(x.data_ptr<float>()) % 16 == 0 &&
                         reinterpret_cast<uintptr_t>(y.data_ptr<float>()) % 16 == 0;
    const int64_t n4 = steps / 4;
    const int64_t pieces = (n4 + THREADS * VEC - 1) / (THREADS * VEC);
    if (taps == 4 && steps % 4 == 0 && aligned && pieces <= 65535) {
        dim3 grid(static_cast<unsigned>(x.size(0) * x.size(1)), static_cast<unsigned>(pieces));
        conv4_silu_kernel<<<grid, THREADS, 0, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
            y.data_ptr<float>(), channels, static_cast<int>(n4));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        conv_silu_any_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
            y.data_ptr<float>(), channels, steps, taps, n);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}
"""

cpp_source = "torch::Tensor causal_conv_silu_cuda(torch::Tensor x_, torch::Tensor weight_, torch::Tensor bias_);"

extension = load_inline(
    name="causal_conv_silu",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["causal_conv_silu_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, taps, padding=taps - 1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.causal_conv_silu_cuda(x, self.conv.weight, self.conv.bias)
