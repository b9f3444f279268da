"""Verified kernel for soft_target_cross_entropy, made by kernelwright 0.1.0.

Run:       20261125-233832-soft_target_cross_en-b7ed, attempt 2 (model)
Problem:   soft_target_cross_entropy (source 59f4137f5eee93d7)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  5.8% of the allowed error, 15 draws
Measured:  0.3607 ms median (p20 0.3601, p80 0.361) on NVIDIA H100 80GB HBM3, 2.73x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>

constexpr int THREADS = 320;
constexpr int WARPS = THREADS / 32;
constexpr int U = 5;
constexpr float LOW = -1e30f;

__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// maxima in raw units of the inputs; c = log2(e) / temperature is applied to differences only
struct State {
    float mt, zt, d;   // teacher: maximum, sum of powers, sum of powers times (student - ms)
    float ms, zs;      // student: maximum, sum of powers
};

__device__ __forceinline__ void raise(State& a, float mt, float ms, float c) {
    const float ft = ex2((a.mt - mt) * c);
    const float fs = ex2((a.ms - ms) * c);
    a.d = fmaf(a.zt, a.ms - ms, a.d) * ft;
    a.zt *= ft;
    a.zs *= fs;
    a.mt = mt;
    a.ms = ms;
}

__device__ __forceinline__ float max4(float4 a) { return fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)); }

template <int N>
__device__ __forceinline__ void take(State& a, const float4 (&t)[N], const float4 (&s)[N], float c) {
    float mt = a.mt, ms = a.ms;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        mt = fmaxf(mt, max4(t[i]));
        ms = fmaxf(ms, max4(s[i]));
    }
    raise(a, mt, ms, c);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const float e0 = ex2((t[i].x - mt) * c), e1 = ex2((t[i].y - mt) * c);
        const float e2 = ex2((t[i].z - mt) * c), e3 = ex2((t[i].w - mt) * c);
        const float s0 = s[i].x - ms, s1 = s[i].y - ms, s2 = s[i].z - ms, s3 = s[i].w - ms;
        a.zt += (e0 + e1) + (e2 + e3);
        a.d += fmaf(e0, s0, e1 * s1) + fmaf(e2, s2, e3 * s3);
        a.zs += (ex2(s0 * c) + ex2(s1 * c)) + (ex2(s2 * c) + ex2(s3 * c));
    }
}

__device__ __forceinline__ void merge_warp(State& a, float c) {
    float mt = a.mt, ms = a.ms;
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        mt = fmaxf(mt, __shfl_xor_sync(0xffffffffu, mt, o));
        ms = fmaxf(ms, __shfl_xor_sync(0xffffffffu, ms, o));
    }
    raise(a, mt, ms, c);
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        a.zt += __shfl_xor_sync(0xffffffffu, a.zt, o);
        a.d += __shfl_xor_sync(0xffffffffu, a.d, o);
        a.zs += __shfl_xor_sync(0xffffffffu, a.zs, o);
    }
}

__global__ void __launch_bounds__(THREADS, 3) soft_target_kernel(
    const float* __restrict__ student, const float* __restrict__ teacher, float* __restrict__ out,
    int64_t n, int n4, float c, float inverse) {
    __shared__ State scratch[WARPS];
    const int64_t row = blockIdx.x;
    const float* ps = student + row * n;
    const float* pt = teacher + row * n;
    const float4* ps4 = reinterpret_cast<const float4*>(ps);
    const float4* pt4 = reinterpret_cast<const float4*>(pt);

    State a;
    a.mt = LOW; a.ms = LOW; a.zt = 0.0f; a.d = 0.0f; a.zs = 0.0f;

    int i = threadIdx.x;
    #pragma unroll 1
    for (; i + (U - 1) * THREADS < n4; i += U * THREADS) {
        float4 t[U], s[U];
        #pragma unroll
        for (int u = 0; u < U; ++u) {
            t[u] = __ldcs(pt4 + i + u * THREADS);
            s[u] = __ldcs(ps4 + i + u * THREADS);
        }
        take<U>(a, t, s, c);
    }
    #pragma unroll 1
    for (; i < n4; i += THREADS) {
        float4 t[1] = {__ldcs(pt4 + i)};
        float4 s[1] = {__ldcs(ps4 + i)};
        take<1>(a, t, s, c);
    }
    #pragma unroll 1
    for (int64_t j = static_cast<int64_t>(n4) * 4 + threadIdx.x; j < n; j += THREADS) {
        const float t = pt[j];
        const float s = ps[j];
        raise(a, fmaxf(a.mt, t), fmaxf(a.ms, s), c);
        const float e = ex2((t - a.mt) * c);
        const float ds = s - a.ms;
        a.zt += e;
        a.d += e * ds;
        a.zs += ex2(ds * c);
    }

    merge_warp(a, c);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = a;
    __syncthreads();
    if (threadIdx.x < 32) {
        State b;
        if (threadIdx.x < WARPS) {
            b = scratch[threadIdx.x];
        } else {
            b.mt = LOW; b.ms = LOW; b.zt = 0.0f; b.d = 0.0f; b.zs = 0.0f;
        }
        merge_warp(b, c);
        if (threadIdx.x == 0)
            out[row] = logf(b.zs) - (b.d / b.zt) * inverse;
    }
}

torch::Tensor soft_target_cuda(torch::Tensor student_, torch::Tensor teacher_, double temperature) {
    const c10::cuda::CUDAGuard guard(student_.device());
    auto student = student_.contiguous();
    auto teacher = teacher_.contiguous();
    TORCH_CHECK(student.dim() >= 1 && student.scalar_type() == torch::kFloat32, "expected float32");
    TORCH_CHECK(teacher.scalar_type() == torch::kFloat32, "expected float32");
    TORCH_CHECK(student.sizes() == teacher.sizes(), "expected equal shapes");
    const int64_t n = student.size(-1);
    std::vector<int64_t> shape(student.sizes().begin(), student.sizes().end() - 1);
    auto out = torch::empty(shape, student.options());
    const int64_t rows = out.numel();
    if (rows == 0 || n == 0) return out.zero_();
    const bool vec = n % 4 == 0 && (reinterpret_cast<uintptr_t>(student.data_ptr<float>()) |
                                    reinterpret_cast<uintptr_t>(teacher.data_ptr<float>())) % 16 == 0;
    soft_target_kernel<<<static_cast<unsigned>(rows), THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
        student.data_ptr<float>(), teacher.data_ptr<float>(), out.data_ptr<float>(),
        n, vec ? static_cast<int>(n / 4) : 0, static_cast<float>(1.4426950408889634 / temperature),
        static_cast<float>(1.0 / temperature));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = "torch::Tensor soft_target_cuda(torch::Tensor student_, torch::Tensor teacher_, double temperature);"

extension = load_inline(
    name="soft_target_cross_entropy",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["soft_target_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        return extension.soft_target_cuda(student, teacher, self.temperature)
