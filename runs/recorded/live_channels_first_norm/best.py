"""Verified kernel for channels_first_layer_norm, made by kernelwright 0.1.0.

Run:       20261125-233654-channels_first_layer-e53d, attempt 2 (model)
Problem:   channels_first_layer_norm (source 049f9c48fe445f79)
Verified:  GPU, full shapes, isolation namespaces, full protocol, not confirmed by a second look
Skipped:   compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a new best only
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  5.3% of the allowed error, 15 draws
Measured:  0.2159 ms median (p20 0.2153, p80 0.2175) on NVIDIA H100 80GB HBM3, 0.96x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int THREADS = 512;
constexpr int TX = 16;              // float4s of pixels of a tile
constexpr int TY = THREADS / TX;    // 32 groups of channels
constexpr int WARPS = THREADS / 32;
constexpr int STAGES = 3;

__device__ __forceinline__ void cp16(unsigned dst, const float* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(dst), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_wait() {
    asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory");
}

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ float4 shuffle4(float4 a, int o) {
    return make_float4(__shfl_xor_sync(0xffffffffu, a.x, o), __shfl_xor_sync(0xffffffffu, a.y, o),
                       __shfl_xor_sync(0xffffffffu, a.z, o), __shfl_xor_sync(0xffffffffu, a.w, o));
}
// sum over the channel groups of the block, for each pixel
__device__ __forceinline__ float4 group_sum(float4 s, float4 (*scratch)[TX], int tx) {
    s = add4(s, shuffle4(s, 16));
    if ((threadIdx.x & 31) < TX) scratch[threadIdx.x >> 5][tx] = s;
    __syncthreads();
    float4 t = scratch[0][tx];
    float4 u = scratch[1][tx];
    #pragma unroll
    for (int w = 2; w < WARPS; w += 2) {
        t = add4(t, scratch[w][tx]);
        u = add4(u, scratch[w + 1][tx]);
    }
    return add4(t, u);
}

template <int C>
__global__ void __launch_bounds__(THREADS, 1) layer_norm_channels_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int hw, int tiles, int total, float eps) {
    constexpr int PER = C / TY;                         // 8 channels of a thread
    constexpr unsigned STAGE_BYTES = C * TX * 16u;      // 65536
    extern __shared__ __align__(128) unsigned char raw[];
    __shared__ float4 scratch_a[WARPS][TX];
    __shared__ float4 scratch_b[WARPS][TX];
    const int tid = threadIdx.x;
    const int tx = tid & (TX - 1);
    const int ty = tid / TX;
    const int grid = gridDim.x;
    const int64_t step = static_cast<int64_t>(TY) * hw;
    const unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(raw)) + tid * 16u;

    auto start_of = [&](int t) -> int64_t {
        const int image = t / tiles;
        const int tile = t - image * tiles;
        return (static_cast<int64_t>(image) * C + ty) * hw + tile * (TX * 4) + tx * 4;
    };
    auto fill = [&](int t, int stage) {
        if (t < total) {
            const float* p = x + start_of(t);
            const unsigned d = slot + stage * STAGE_BYTES;
            #pragma unroll
            for (int i = 0; i < PER; ++i) cp16(d + i * (THREADS * 16u), p + i * step);
        }
        cp_commit();
    };

    int next = blockIdx.x;
    #pragma unroll
    for (int s = 0; s < STAGES; ++s) {
        fill(next, s);
        next += grid;
    }

    float w[PER], b[PER];
    #pragma unroll
    for (int i = 0; i < PER; ++i) {
        w[i] = __ldg(weight + ty + i * TY);
        b[i] = __ldg(bias + ty + i * TY);
    }
    const float inv = 1.0f / C;

    int stage = 0;
    #pragma unroll 1
    for (int t = blockIdx.x; t < total; t += grid) {
        cp_wait<STAGES - 1>();
        // a thread reads what it has copied itself: no barrier
        const float4* mine = reinterpret_cast<const float4*>(raw + stage * STAGE_BYTES) + tid;
        float4 v[PER];
        #pragma unroll
        for (int i = 0; i < PER; ++i) v[i] = mine[i * THREADS];

        float4 s = v[0];
        #pragma unroll
        for (int i = 1; i < PER; ++i) s = add4(s, v[i]);
        float4 mean = group_sum(s, scratch_a, tx);
        mean.x *= inv; mean.y *= inv; mean.z *= inv; mean.w *= inv;

        fill(next, stage);          // the values are in registers: their place is free
        next += grid;

        float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            const float d0 = v[i].x - mean.x, d1 = v[i].y - mean.y;
            const float d2 = v[i].z - mean.z, d3 = v[i].w - mean.w;
            q.x = fmaf(d0, d0, q.x);
            q.y = fmaf(d1, d1, q.y);
            q.z = fmaf(d2, d2, q.z);
            q.w = fmaf(d3, d3, q.w);
        }
        const float4 var = group_sum(q, scratch_b, tx);
        float4 r;
        r.x = 1.0f / sqrtf(fmaf(var.x, inv, eps));
        r.y = 1.0f / sqrtf(fmaf(var.y, inv, eps));
        r.z = 1.0f / sqrtf(fmaf(var.z, inv, eps));
        r.w = 1.0f / sqrtf(fmaf(var.w, inv, eps));

        float* py = y + start_of(t);
        #pragma unroll
        for (int i = 0; i < PER; ++i) {
            float4 o;
            o.x = v[i].x + fmaf((v[i].x - mean.x) * r.x, w[i], b[i]);
            o.y = v[i].y + fmaf((v[i].y - mean.y) * r.y, w[i], b[i]);
            o.z = v[i].z + fmaf((v[i].z - mean.z) * r.z, w[i], b[i]);
            o.w = v[i].w + fmaf((v[i].w - mean.w) * r.w, w[i], b[i]);
            __stcs(reinterpret_cast<float4*>(py + i * step), o);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    cp_wait<0>();
}

__global__ void layer_norm_any_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int channels, int64_t hw, int64_t pixels, float eps) {
    const int64_t p = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (p >= pixels) return;
    const int64_t image = p / hw;
    const int64_t start = image * channels * hw + (p - image * hw);
    float s = 0.0f;
    for (int c = 0; c < channels; ++c) s += x[start + c * hw];
    const float mean = s / channels;
    float q = 0.0f;
    for (int c = 0; c < channels; ++c) {
        const float d = x[start + c * hw] - mean;
        q = fmaf(d, d, q);
    }
    const float r = 1.0f / sqrtf(q / channels + eps);
    for (int c = 0; c < channels; ++c) {
        const float a = x[start + c * hw];
        y[start + c * hw] = a + fmaf((a - mean) * r, weight[c], bias[c]);
    }
}

torch::Tensor layer_norm_channels_cuda(torch::Tensor x_, torch::Tensor weight_, torch::Tensor bias_, double eps) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    auto weight = weight_.contiguous();
    auto bias = bias_.contiguous();
    TORCH_CHECK(x.dim() == 4 && x.scalar_type() == torch::kFloat32, "expected float32 (N, C, H, W)");
    auto y = torch::empty_like(x);
    if (x.numel() == 0) return y;
    const int64_t images = x.size(0);
    const int channels = static_cast<int>(x.size(1));
    const int64_t hw = x.size(2) * x.size(3);
    auto stream = at::cuda::getCurrentCUDAStream();
    const bool aligned = (reinterpret_cast<uintptr_t>(x.data_ptr<float>()) |
                          reinterpret_cast<uintptr_t>(y.data_ptr<float>())) % 16 == 0;
    if (channels == 256 && hw % (TX * 4) == 0 && aligned && images * hw < (int64_t(1) << 30)) {
        const int tiles = static_cast<int>(hw / (TX * 4));
        const int total = static_cast<int>(images * tiles);
        const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
        const int smem = STAGES * 256 * TX * 16;
        C10_CUDA_CHECK(cudaFuncSetAttribute(layer_norm_channels_kernel<256>,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
        layer_norm_channels_kernel<256><<<total < sms ? total : sms, THREADS, smem, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
            y.data_ptr<float>(), static_cast<int>(hw), tiles, total, static_cast<float>(eps));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        const int64_t pixels = images * hw;
        layer_norm_any_kernel<<<static_cast<unsigned>((pixels + 255) / 256), 256, 0, stream>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
            y.data_ptr<float>(), channels, hw, pixels, static_cast<float>(eps));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}
"""

cpp_source = (
    "torch::Tensor layer_norm_channels_cuda(torch::Tensor x_, torch::Tensor weight_, "
    "torch::Tensor bias_, double eps);"
)

extension = load_inline(
    name="layer_norm_channels_first_ring",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["layer_norm_channels_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.layer_norm_channels_cuda(x, self.weight, self.bias, self.eps)
