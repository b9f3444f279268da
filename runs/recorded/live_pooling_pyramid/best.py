"""Verified kernel for pooling_pyramid, made by kernelwright 0.1.0.

Run:       20261125-233755-pooling_pyramid-716c, attempt 2 (model)
Problem:   pooling_pyramid (source 9a098ece7a739984)
Verified:  GPU, full shapes, isolation namespaces, full protocol, not confirmed by a second look
Skipped:   compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a new best only
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  0.0% of the allowed error, 15 draws
Measured:  0.1906 ms median (p20 0.19, p80 0.1911) on NVIDIA H100 80GB HBM3, 3.98x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int SIDE = 40;
constexpr int QUADS = SIDE / 4;          // 10
constexpr int STRIPS = SIDE / 4;         // 10
constexpr int PER_PLANE = QUADS * STRIPS;   // 100 threads
constexpr int PLANES = 3;
constexpr int THREADS = 320;
constexpr int STRIP_FLOATS = 168;        // 160 and 8 against bank conflicts
constexpr int PLANE_FLOATS = STRIP_FLOATS * STRIPS;

// maximum that keeps a NaN, as torch's pooling does
__device__ __forceinline__ float mx(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

// four windows of five over a0..a7
__device__ __forceinline__ void windows5(float a0, float a1, float a2, float a3, float a4, float a5, float a6,
                                         float a7, float& o0, float& o1, float& o2, float& o3) {
    const float c = mx(a3, a4);
    const float cu = mx(c, mx(a1, a2));
    const float cw = mx(c, mx(a5, a6));
    o0 = mx(cu, a0);
    o1 = mx(cu, a5);
    o2 = mx(cw, a2);
    o3 = mx(cw, a7);
}

__global__ void __launch_bounds__(THREADS, 4) pyramid_kernel(
    const float* __restrict__ x, float* __restrict__ y, int channels, int planes) {
    __shared__ __align__(16) float sa[PLANES * PLANE_FLOATS];
    __shared__ __align__(16) float sh[PLANES * PLANE_FLOATS];
    const int local = threadIdx.x / PER_PLANE;
    const int t = threadIdx.x - local * PER_PLANE;
    const int s = t / QUADS;
    const int q = t - s * QUADS;
    const int plane = static_cast<int>(blockIdx.x) * PLANES + local;
    const bool active = local < PLANES && plane < planes;
    constexpr int N = SIDE * SIDE;
    const int own = local * PLANE_FLOATS + s * STRIP_FLOATS + q * 4;

    float4 v[4];
    float* dst = y;
    if (active) {
        const float* src = x + static_cast<int64_t>(plane) * N + s * 4 * SIDE + q * 4;
        const int image = plane / channels;
        // four times the channels: image * 4 * channels + channel = plane + 3 * image * channels
        dst = y + (static_cast<int64_t>(plane) + static_cast<int64_t>(image) * 3 * channels) * N + s * 4 * SIDE + q * 4;
        #pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = __ldcs(reinterpret_cast<const float4*>(src + i * SIDE));
        #pragma unroll
        for (int i = 0; i < 4; ++i) *reinterpret_cast<float4*>(dst + i * SIDE) = v[i];
    }
    const int slice = channels * N;

    #pragma unroll 1
    for (int stage = 0; stage < 3; ++stage) {
        if (active) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) *reinterpret_cast<float4*>(sa + own + i * SIDE) = v[i];
        }
        __syncthreads();
        float4 h[4];
        if (active) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                float2 l = make_float2(v[i].x, v[i].x);
                float2 r = make_float2(v[i].w, v[i].w);
                if (q > 0) l = *reinterpret_cast<const float2*>(sa + own + i * SIDE - 2);
                if (q < QUADS - 1) r = *reinterpret_cast<const float2*>(sa + own + i * SIDE + 4);
                windows5(l.x, l.y, v[i].x, v[i].y, v[i].z, v[i].w, r.x, r.y,
                         h[i].x, h[i].y, h[i].z, h[i].w);
                *reinterpret_cast<float4*>(sh + own + i * SIDE) = h[i];
            }
        }
        __syncthreads();
        if (active) {
            float4 u0 = h[0], u1 = h[0], d0 = h[3], d1 = h[3];
            if (s > 0) {
                u0 = *reinterpret_cast<const float4*>(sh + own - STRIP_FLOATS + 2 * SIDE);
                u1 = *reinterpret_cast<const float4*>(sh + own - STRIP_FLOATS + 3 * SIDE);
            }
            if (s < STRIPS - 1) {
                d0 = *reinterpret_cast<const float4*>(sh + own + STRIP_FLOATS);
                d1 = *reinterpret_cast<const float4*>(sh + own + STRIP_FLOATS + SIDE);
            }
            windows5(u0.x, u1.x, h[0].x, h[1].x, h[2].x, h[3].x, d0.x, d1.x, v[0].x, v[1].x, v[2].x, v[3].x);
            windows5(u0.y, u1.y, h[0].y, h[1].y, h[2].y, h[3].y, d0.y, d1.y, v[0].y, v[1].y, v[2].y, v[3].y);
            windows5(u0.z, u1.z, h[0].z, h[1].z, h[2].z, h[3].z, d0.z, d1.z, v[0].z, v[1].z, v[2].z, v[3].z);
            windows5(u0.w, u1.w, h[0].w, h[1].w, h[2].w, h[3].w, d0.w, d1.w, v[0].w, v[1].w, v[2].w, v[3].w);
            dst += slice;
            #pragma unroll
            for (int i = 0; i < 4; ++i) *reinterpret_cast<float4*>(dst + i * SIDE) = v[i];
        }
    }
}

// any shape: one pooling, from planes of `source` to planes of `target`
__global__ void pool_any_kernel(const float* __restrict__ source, float* __restrict__ target, int channels,
                                int height, int width, int k, int64_t source_image, int64_t target_image,
                                int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    const int64_t per = static_cast<int64_t>(channels) * height * width;
    const int64_t image = i / per;
    const int64_t rest = i - image * per;
    const int64_t hw = static_cast<int64_t>(height) * width;
    const int64_t channel = rest / hw;
    const int p = static_cast<int>(rest - channel * hw);
    const int r = p / width, c = p - r * width;
    const float* src = source + image * source_image + channel * hw;
    const int half = k / 2;
    float m = src[p];
    for (int a = max(r - half, 0); a <= min(r + half, height - 1); ++a)
        for (int b = max(c - half, 0); b <= min(c + half, width - 1); ++b)
            m = mx(m, src[static_cast<int64_t>(a) * width + b]);
    target[image * target_image + rest] = m;
}

torch::Tensor pyramid_cuda(torch::Tensor x_, int64_t k) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    TORCH_CHECK(x.dim() == 4 && x.scalar_type() == torch::kFloat32, "expected float32 (N, C, H, W)");
    TORCH_CHECK(k % 2 == 1, "expected an odd kernel size");
    const int64_t images = x.size(0);
    const int channels = static_cast<int>(x.size(1));
    const int height = static_cast<int>(x.size(2));
    const int width = static_cast<int>(x.size(3));
    auto y = torch::empty({images, 4 * x.size(1), x.size(2), x.size(3)}, x.options());
    const int64_t n = x.numel();
    if (n == 0) return y;
    auto stream = at::cuda::getCurrentCUDAStream();
    const bool aligned = (reinterpret_cast<uintptr_t>(x.data_ptr<float>()) |
                          reinterpret_cast<uintptr_t>(y.data_ptr<float>())) % 16 == 0;
    if (k == 5 && height == SIDE && width == SIDE && aligned && images * channels < (1 << 30) &&
        channels < (1 << 20)) {
        const int64_t planes = images * channels;
        const int64_t blocks = (planes + PLANES - 1) / PLANES;
        pyramid_kernel<<<static_cast<unsigned>(blocks), THREADS, 0, stream>>>(
            x.data_ptr<float>(), y.data_ptr<float>(), channels, static_cast<int>(planes));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        const int64_t per = static_cast<int64_t>(channels) * height * width;
        const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
        float* out = y.data_ptr<float>();
        pool_any_kernel<<<blocks, 256, 0, stream>>>(x.data_ptr<float>(), out, channels, height, width, 1,
                                                    per, 4 * per, n);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        for (int stage = 0; stage < 3; ++stage) {
            pool_any_kernel<<<blocks, 256, 0, stream>>>(out + stage * per, out + (stage + 1) * per, channels,
                                                        height, width, static_cast<int>(k), 4 * per, 4 * per, n);
            C10_CUDA_KERNEL_LAUNCH_CHECK();
        }
    }
    return y;
}
"""

cpp_source = "torch::Tensor pyramid_cuda(torch::Tensor x_, int64_t k);"

extension = load_inline(
    name="pooling_pyramid_4",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["pyramid_cuda"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90,code=sm_90"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int) -> None:
        super().__init__()
        self.kernel_size = kernel_size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.pyramid_cuda(x, self.kernel_size)
