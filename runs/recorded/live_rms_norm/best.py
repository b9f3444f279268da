"""Verified kernel for level1/rms_norm, made by kernelwright 0.1.0.

Run:       20261123-114647-rms_norm-d1dd, attempt 3 (model)
Problem:   level1/rms_norm (source b948d3a2ce341f4f)
Verified:  GPU, full shapes, isolation namespaces, full protocol, not confirmed by a second look
Skipped:   compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a new best only
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  5.5% of the allowed error, 15 draws
Measured:  0.1369 ms median (p20 0.1365, p80 0.138) on NVIDIA H200, 0.93x against compile (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cstdint>

constexpr int HIDDEN = 4096;
constexpr int THREADS = 256;
constexpr int VECS = HIDDEN / 4 / THREADS;      // 4
constexpr int WARPS = THREADS / 32;             // 8
constexpr int STAGES = 4;
constexpr int ROW_BYTES = HIDDEN * 4;           // 16384
constexpr int SMEM_BYTES = STAGES * ROW_BYTES;  // 65536

__device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t parity) {
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n"
            : "=r"(done)
            : "r"(bar), "r"(parity)
            : "memory");
    }
}

__device__ __forceinline__ void issue_row(uint32_t dst, const float* src, uint32_t bar) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(bar), "r"(ROW_BYTES)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(dst),
        "l"(src), "r"(ROW_BYTES), "r"(bar)
        : "memory");
}

__global__ void __launch_bounds__(THREADS)
rms_norm_ring_kernel(const float* __restrict__ x, const float4* __restrict__ w, float4* __restrict__ y,
                     int rows, float inv_n, float eps) {
    extern __shared__ __align__(128) float4 ring[];
    __shared__ __align__(8) uint64_t bars[STAGES];
    __shared__ __align__(16) float partial[2][WARPS];

    const int tid = threadIdx.x;
    const int first = blockIdx.x;
    const int step = gridDim.x;
    const int count = first < rows ? (rows - first + step - 1) / step : 0;
    const uint32_t ring_addr = static_cast<uint32_t>(__cvta_generic_to_shared(ring));
    const uint32_t bar_addr = static_cast<uint32_t>(__cvta_generic_to_shared(bars));

    if (tid == 0) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(bar_addr + 8 * s) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#pragma unroll
        for (int s = 0; s < STAGES; ++s)
            if (s < count)
                issue_row(ring_addr + s * ROW_BYTES, x + static_cast<int64_t>(first + s * step) * HIDDEN,
                          bar_addr + 8 * s);
    }

    float4 g[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) g[i] = __ldg(w + i * THREADS + tid);
    __syncthreads();

    for (int k = 0; k < count; ++k) {
        const int slot = k & (STAGES - 1);
        const int row = first + k * step;
        mbar_wait(bar_addr + 8 * slot, (k / STAGES) & 1);

        const float4* src = ring + slot * (HIDDEN / 4) + tid;
        float4 v[VECS];
#pragma unroll
        for (int i = 0; i < VECS; ++i) v[i] = src[i * THREADS];

        float s0 = 0.f, s1 = 0.f;
#pragma unroll
        for (int i = 0; i < VECS; ++i) {
            s0 = fmaf(v[i].x, v[i].x, s0);
            s1 = fmaf(v[i].y, v[i].y, s1);
            s0 = fmaf(v[i].z, v[i].z, s0);
            s1 = fmaf(v[i].w, v[i].w, s1);
        }
        float s = s0 + s1;
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        if ((tid & 31) == 0) partial[k & 1][tid >> 5] = s;
        __syncthreads();
        // Every thread holds its part of the row: the slot is free.
        if (tid == 0 && k + STAGES < count)
            issue_row(ring_addr + slot * ROW_BYTES, x + static_cast<int64_t>(row + STAGES * step) * HIDDEN,
                      bar_addr + 8 * slot);

        const float4 pa = *reinterpret_cast<const float4*>(&partial[k & 1][0]);
        const float4 pb = *reinterpret_cast<const float4*>(&partial[k & 1][4]);
        const float total = ((pa.x + pa.y) + (pa.z + pa.w)) + ((pb.x + pb.y) + (pb.z + pb.w));
        const float scale = rsqrtf(fmaf(total, inv_n, eps));

        float4* out = y + static_cast<int64_t>(row) * (HIDDEN / 4) + tid;
#pragma unroll
        for (int i = 0; i < VECS; ++i) {
            float4 r;
            r.x = v[i].x * scale * g[i].x;
            r.y = v[i].y * scale * g[i].y;
            r.z = v[i].z * scale * g[i].z;
            r.w = v[i].w * scale * g[i].w;
            out[i * THREADS] = r;
        }
    }
}

// Any hidden size: two passes over the row (the second one mostly from cache).
__global__ void __launch_bounds__(256)
rms_norm_general_kernel(const float* __restrict__ x, const float* __restrict__ w,
                        float* __restrict__ y, int64_t n, float eps) {
    __shared__ float parts[8];
    const int tid = threadIdx.x;
    const float* row = x + static_cast<int64_t>(blockIdx.x) * n;
    float* out = y + static_cast<int64_t>(blockIdx.x) * n;
    float s = 0.f;
    for (int64_t i = tid; i < n; i += 256) {
        const float a = row[i];
        s = fmaf(a, a, s);
    }
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if ((tid & 31) == 0) parts[tid >> 5] = s;
    __syncthreads();
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) total += parts[i];
    const float scale = rsqrtf(total / static_cast<float>(n) + eps);
    for (int64_t i = tid; i < n; i += 256) out[i] = row[i] * scale * w[i];
}

torch::Tensor rms_norm_cuda(torch::Tensor x, torch::Tensor weight, double eps) {
    auto input = x.contiguous();
    auto w = weight.contiguous();
    auto y = torch::empty_like(input);
    if (input.numel() == 0) return y;
    const int64_t n = input.size(-1);
    const int64_t rows = input.numel() / n;
    auto stream = at::cuda::getCurrentCUDAStream();
    const float* xp = input.data_ptr<float>();
    const float* wp = w.data_ptr<float>();
    float* yp = y.data_ptr<float>();
    const bool aligned = ((reinterpret_cast<uintptr_t>(xp) | reinterpret_cast<uintptr_t>(wp) |
                           reinterpret_cast<uintptr_t>(yp)) & 15) == 0;
    if (n == HIDDEN && aligned && rows < (1 << 30)) {
        const int64_t blocks = 2 * static_cast<int64_t>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
        const unsigned grid = static_cast<unsigned>(rows < blocks ? rows : blocks);
        C10_CUDA_CHECK(cudaFuncSetAttribute(rms_norm_ring_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            SMEM_BYTES));
        rms_norm_ring_kernel<<<grid, THREADS, SMEM_BYTES, stream>>>(
            xp, reinterpret_cast<const float4*>(wp), reinterpret_cast<float4*>(yp), static_cast<int>(rows),
            1.0f / HIDDEN, static_cast<float>(eps));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        rms_norm_general_kernel<<<static_cast<unsigned>(rows), 256, 0, stream>>>(
            xp, wp, yp, n, static_cast<float>(eps));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}
"""

cpp_source = "torch::Tensor rms_norm_cuda(torch::Tensor x, torch::Tensor weight, double eps);"

extension = load_inline(
    name="rms_norm_ring_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["rms_norm_cuda"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90,code=sm_90"],
)


class ModelNew(nn.Module):
    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.rms_norm_cuda(x, self.weight.detach(), self.eps)
