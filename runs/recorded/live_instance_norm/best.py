"""Verified kernel for instance_norm_leaky_relu_residual, made by kernelwright 0.1.0.

Run:       20261125-233719-instance_norm_leaky-8ed2, attempt 1 (model)
Problem:   instance_norm_leaky_relu_residual (source d30dcecfea19e0e8)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  6.7% of the allowed error, 15 draws
Measured:  0.3062 ms median (p20 0.3051, p80 0.3075) on NVIDIA H100 80GB HBM3, 0.87x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int THREADS = 512;
constexpr int CHUNK = 16384;   // bytes of one bulk copy

__device__ __forceinline__ unsigned smem_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// sum over the block; every thread gets it
__device__ __forceinline__ float block_sum(float v, float* scratch) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    float t = (threadIdx.x & 31) < THREADS / 32 ? scratch[threadIdx.x & 31] : 0.0f;
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) t += __shfl_xor_sync(0xffffffffu, t, o);
    return t;
}

__device__ __forceinline__ float leaky(float v, float slope) { return v > 0.0f ? v : slope * v; }

__global__ void __launch_bounds__(THREADS, 3) instance_norm_smem_kernel(
    const float* __restrict__ x, const float* __restrict__ skip,
    const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
    int channels, int n, float eps, float slope) {
    extern __shared__ __align__(128) unsigned char raw[];
    __shared__ float scratch_a[32];
    __shared__ float scratch_b[32];
    __shared__ __align__(8) unsigned long long barrier;
    const int64_t plane = blockIdx.x;
    const int channel = static_cast<int>(plane % channels);
    const float* px = x + plane * n;
    const float* ps = skip + plane * n;
    const unsigned bar = smem_address(&barrier);
    const unsigned bytes = static_cast<unsigned>(n) * 4u;

    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
                     :: "r"(bar), "r"(bytes) : "memory");
        for (unsigned o = 0; o < bytes; o += CHUNK) {
            const unsigned size = min(static_cast<unsigned>(CHUNK), bytes - o);
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
                :: "r"(smem_address(raw + o)), "l"(reinterpret_cast<const char*>(px) + o),
                   "r"(size), "r"(bar) : "memory");
        }
        for (unsigned o = 0; o < bytes; o += CHUNK) {
            const unsigned size = min(static_cast<unsigned>(CHUNK), bytes - o);
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n"
                         :: "l"(reinterpret_cast<const char*>(ps) + o), "r"(size) : "memory");
        }
    }
    const float w = __ldg(weight + channel);
    const float b = __ldg(bias + channel);
    {
        unsigned done = 0;
        while (!done) {
            asm volatile(
                "{\n"
                ".reg .pred p;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                "selp.u32 %0, 1, 0, p;\n"
                "}\n" : "=r"(done) : "r"(bar), "r"(0u) : "memory");
        }
    }

    const float4* s4 = reinterpret_cast<const float4*>(raw);
    const int n4 = n >> 2;
    float sum = 0.0f;
    #pragma unroll 4
    for (int i = threadIdx.x; i < n4; i += THREADS) {
        const float4 a = s4[i];
        sum += (a.x + a.y) + (a.z + a.w);
    }
    const float mean = block_sum(sum, scratch_a) / static_cast<float>(n);
    float sq = 0.0f;
    #pragma unroll 4
    for (int i = threadIdx.x; i < n4; i += THREADS) {
        const float4 a = s4[i];
        const float d0 = a.x - mean, d1 = a.y - mean, d2 = a.z - mean, d3 = a.w - mean;
        sq += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
    const float var = block_sum(sq, scratch_b) / static_cast<float>(n);
    const float g = w * (1.0f / sqrtf(var + eps));

    const float4* k4 = reinterpret_cast<const float4*>(ps);
    float4* y4 = reinterpret_cast<float4*>(y + plane * n);
    #pragma unroll 4
    for (int i = threadIdx.x; i < n4; i += THREADS) {
        const float4 k = __ldcs(k4 + i);
        const float4 a = s4[i];
        float4 r;
        r.x = leaky(fmaf(a.x - mean, g, b) + k.x, slope);
        r.y = leaky(fmaf(a.y - mean, g, b) + k.y, slope);
        r.z = leaky(fmaf(a.z - mean, g, b) + k.z, slope);
        r.w = leaky(fmaf(a.w - mean, g, b) + k.w, slope);
        __stcs(y4 + i, r);
    }
}

__global__ void __launch_bounds__(THREADS) instance_norm_any_kernel(
    const float* __restrict__ x, const float* __restrict__ skip,
    const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
    int channels, int64_t n, float eps, float slope) {
    __shared__ float scratch_a[32];
    __shared__ float scratch_b[32];
    const int64_t plane = blockIdx.x;
    const int channel = static_cast<int>(plane % channels);
    const float* px = x + plane * n;
    const float* ps = skip + plane * n;
    float* py = y + plane * n;
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += px[i];
    const float mean = block_sum(sum, scratch_a) / static_cast<float>(n);
    float sq = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float d = px[i] - mean;
        sq += d * d;
    }
    const float var = block_sum(sq, scratch_b) / static_cast<float>(n);
    const float g = weight[channel] * (1.0f / sqrtf(var + eps));
    const float b = bias[channel];
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        py[i] = leaky(fmaf(px[i] - mean, g, b) + ps[i], slope);
}

torch::Tensor instance_norm_leaky_cuda(torch::Tensor x_, torch::Tensor skip_, torch::Tensor weight_,
                                       torch::Tensor bias_, double eps, double slope) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    auto skip = skip_.contiguous();
    auto weight = weight_.contiguous();
    auto bias = bias_.contiguous();
    TORCH_CHECK(x.dim() == 4 && x.scalar_type() == torch::kFloat32, "expected float32 (N, C, H, W)");
    TORCH_CHECK(skip.sizes() == x.sizes(), "the skip must have the shape of x");
    auto y = torch::empty_like(x);
    if (x.numel() == 0) return y;
    const int64_t planes = x.size(0) * x.size(1);
    const int channels = static_cast<int>(x.size(1));
    const int64_t n = x.size(2) * x.size(3);
    auto stream = at::cuda::getCurrentCUDAStream();
    const bool aligned = (reinterpret_cast<uintptr_t>(x.data_ptr<float>()) |
                          reinterpret_cast<uintptr_t>(skip.data_ptr<float>()) |
                          reinterpret_cast<uintptr_t>(y.data_ptr<float>())) % 16 == 0;
    if (n % 4 == 0 && n * 4 <= 200 * 1024 && aligned) {
        const int smem = static_cast<int>(n * 4);
        C10_CUDA_CHECK(cudaFuncSetAttribute(instance_norm_smem_kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
        instance_norm_smem_kernel<<<static_cast<unsigned>(planes), THREADS, smem, stream>>>(
            x.data_ptr<float>(), skip.data_ptr<float>(), weight.data_ptr<float>(),
            bias.data_ptr<float>(), y.data_ptr<float>(), channels, static_cast<int>(n),
            static_cast<float>(eps), static_cast<float>(slope));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        instance_norm_any_kernel<<<static_cast<unsigned>(planes), THREADS, 0, stream>>>(
            x.data_ptr<float>(), skip.data_ptr<float>(), weight.data_ptr<float>(),
            bias.data_ptr<float>(), y.data_ptr<float>(), channels, n,
            static_cast<float>(eps), static_cast<float>(slope));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}
"""

cpp_source = (
    "torch::Tensor instance_norm_leaky_cuda(torch::Tensor x_, torch::Tensor skip_, torch::Tensor weight_, "
    "torch::Tensor bias_, double eps, double slope);"
)

extension = load_inline(
    name="instance_norm_leaky",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["instance_norm_leaky_cuda"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90,code=sm_90"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int, slope: float) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True)
        self.slope = slope

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return extension.instance_norm_leaky_cuda(
            x, skip, self.norm.weight, self.norm.bias, self.norm.eps, self.slope
        )
