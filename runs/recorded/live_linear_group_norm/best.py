"""Verified kernel for level2/linear_group_norm_min_bias, made by kernelwright 0.1.0.

Run:       20261123-114710-linear_group_norm_mi-2680, attempt 1 (model)
Problem:   level2/linear_group_norm_min_bias (source ece47fe1ec607461)
Verified:  GPU, full shapes, isolation namespaces, full protocol, not confirmed by a second look
Skipped:   compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a new best only
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  11.7% of the allowed error, 15 draws
Measured:  2.716 ms median (p20 2.715, p80 2.719) on NVIDIA H200, 1.01x against compile (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cstdint>

constexpr int F = 8192;
constexpr int GS = 16;            // features of a group
constexpr int ROWS = 8;           // rows of a block
constexpr int THREADS = 1024;
constexpr int VECS = F / (4 * THREADS);   // 2

__device__ __forceinline__ float min_nan(float a, float b) {
    return (b < a || b != b) ? b : a;
}

__global__ void __launch_bounds__(THREADS, 1)
gn_min_bias_kernel(const float* __restrict__ h, const float* __restrict__ lb,
                   const float* __restrict__ gw, const float* __restrict__ gb,
                   const float* __restrict__ ob, float* __restrict__ out, int batch, float eps) {
    __shared__ float red[THREADS / 32][ROWS + 1];
    __shared__ __align__(16) float rowmin[ROWS];
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int b0 = blockIdx.x * ROWS;

    float4 l[VECS], g[VECS], s[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
        l[i] = __ldg(reinterpret_cast<const float4*>(lb) + i * THREADS + tid);
        g[i] = __ldg(reinterpret_cast<const float4*>(gw) + i * THREADS + tid);
        s[i] = __ldg(reinterpret_cast<const float4*>(gb) + i * THREADS + tid);
    }

    float rm[ROWS];
    const float4* hp = reinterpret_cast<const float4*>(h + (int64_t)b0 * F) + tid;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float m = __int_as_float(0x7f800000);
#pragma unroll
        for (int i = 0; i < VECS; ++i) {
            float4 v = __ldg(hp + r * (F / 4) + i * THREADS);
            v.x += l[i].x;
            v.y += l[i].y;
            v.z += l[i].z;
            v.w += l[i].w;
            float t = (v.x + v.y) + (v.z + v.w);
            t += __shfl_xor_sync(0xffffffffu, t, 1);
            t += __shfl_xor_sync(0xffffffffu, t, 2);
            const float mean = t * (1.0f / GS);
            v.x -= mean;
            v.y -= mean;
            v.z -= mean;
            v.w -= mean;
            float q = (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
            q += __shfl_xor_sync(0xffffffffu, q, 1);
            q += __shfl_xor_sync(0xffffffffu, q, 2);
            const float rstd = 1.0f / sqrtf(q * (1.0f / GS) + eps);
            m = min_nan(m, v.x * rstd * g[i].x + s[i].x);
            m = min_nan(m, v.y * rstd * g[i].y + s[i].y);
            m = min_nan(m, v.z * rstd * g[i].z + s[i].z);
            m = min_nan(m, v.w * rstd * g[i].w + s[i].w);
        }
        rm[r] = m;
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int o = 16; o > 0; o >>= 1)
            rm[r] = min_nan(rm[r], __shfl_xor_sync(0xffffffffu, rm[r], o));
    }
    if (lane == 0) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) red[warp][r] = rm[r];
    }
    __syncthreads();
    if (warp < ROWS) {
        float m = red[lane][warp];
#pragma unroll
        for (int o = 16; o > 0; o >>= 1)
            m = min_nan(m, __shfl_xor_sync(0xffffffffu, m, o));
        if (lane == 0) rowmin[warp] = m;
    }
    __syncthreads();

    const int half = tid & 1;
    const float4 rv = *reinterpret_cast<const float4*>(rowmin + 4 * half);
    float* op = out + b0 + 4 * half;
#pragma unroll 8
    for (int f = tid >> 1; f < F; f += THREADS / 2) {
        const float b = __ldg(ob + f);
        *reinterpret_cast<float4*>(op + (int64_t)f * batch) =
            make_float4(rv.x + b, rv.y + b, rv.z + b, rv.w + b);
    }
}

// ------------------------------------------------------------------ other shapes
__global__ void __launch_bounds__(256)
gn_min_generic(const float* __restrict__ h, const float* __restrict__ lb,
               const float* __restrict__ gw, const float* __restrict__ gb,
               float* __restrict__ rowmin, int64_t features, int64_t groups, float eps) {
    __shared__ float red[8];
    const float* hp = h + (int64_t)blockIdx.x * features;
    const int64_t gs = features / groups;
    float m = __int_as_float(0x7f800000);
    for (int64_t g = threadIdx.x; g < groups; g += 256) {
        const int64_t f0 = g * gs;
        float t = 0.f;
        for (int64_t i = f0; i < f0 + gs; ++i) t += hp[i] + lb[i];
        const float mean = t / (float)gs;
        float q = 0.f;
        for (int64_t i = f0; i < f0 + gs; ++i) {
            const float d = hp[i] + lb[i] - mean;
            q += d * d;
        }
        const float rstd = 1.0f / sqrtf(q / (float)gs + eps);
        for (int64_t i = f0; i < f0 + gs; ++i)
            m = min_nan(m, (hp[i] + lb[i] - mean) * rstd * gw[i] + gb[i]);
    }
    for (int o = 16; o > 0; o >>= 1) m = min_nan(m, __shfl_xor_sync(0xffffffffu, m, o));
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = m;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; ++i) m = min_nan(m, red[i]);
        rowmin[blockIdx.x] = m;
    }
}

__global__ void __launch_bounds__(256)
broadcast_generic(const float* __restrict__ rowmin, const float* __restrict__ ob,
                  float* __restrict__ out, int64_t batch, int64_t total) {
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < total;
         i += (int64_t)gridDim.x * blockDim.x)
        out[i] = rowmin[i % batch] + ob[i / batch];
}

static bool aligned16(const void* p) {
    return (reinterpret_cast<uintptr_t>(p) & 15) == 0;
}

torch::Tensor gn_min_bias_cuda(torch::Tensor product, torch::Tensor linear_bias, torch::Tensor gn_weight,
                               torch::Tensor gn_bias, torch::Tensor out_bias, int64_t groups, double eps) {
    auto h = product.contiguous();
    auto lb = linear_bias.contiguous();
    auto gw = gn_weight.contiguous();
    auto gb = gn_bias.contiguous();
    auto ob = out_bias.contiguous();
    const int64_t batch = h.size(0);
    const int64_t features = h.size(1);
    const int64_t of = ob.numel();
    auto opts = torch::TensorOptions().device(h.device()).dtype(torch::kFloat32);
    auto out = torch::empty({1, of, batch, 1}, opts);
    if (out.numel() == 0) return out;
    const float* hp = h.data_ptr<float>();
    const float* lp = lb.data_ptr<float>();
    const float* gwp = gw.data_ptr<float>();
    const float* gbp = gb.data_ptr<float>();
    const float* obp = ob.data_ptr<float>();
    float* op = out.data_ptr<float>();
    auto stream = at::cuda::getCurrentCUDAStream();
    if (features == F && of == F && groups * GS == F && batch % ROWS == 0
        && aligned16(hp) && aligned16(lp) && aligned16(gwp) && aligned16(gbp) && aligned16(op)) {
        gn_min_bias_kernel<<<(unsigned int)(batch / ROWS), THREADS, 0, stream>>>(
            hp, lp, gwp, gbp, obp, op, (int)batch, (float)eps);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    } else {
        auto rowmin = torch::empty({batch}, opts);
        gn_min_generic<<<(unsigned int)batch, 256, 0, stream>>>(
            hp, lp, gwp, gbp, rowmin.data_ptr<float>(), features, groups, (float)eps);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        const int64_t total = out.numel();
        int64_t blocks = (total + 255) / 256;
        if (blocks > 65535) blocks = 65535;
        broadcast_generic<<<(unsigned int)blocks, 256, 0, stream>>>(
            rowmin.data_ptr<float>(), obp, op, batch, total);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return out;
}
"""

cpp_source = """
torch::Tensor gn_min_bias_cuda(torch::Tensor product, torch::Tensor linear_bias, torch::Tensor gn_weight,
                               torch::Tensor gn_bias, torch::Tensor out_bias, int64_t groups, double eps);
"""

extension = load_inline(
    name="linear_gn_min_bias",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["gn_min_bias_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, num_groups: int, bias_shape) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(tuple(bias_shape)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x, self.linear.weight.detach().t())
        return extension.gn_min_bias_cuda(
            product,
            self.linear.bias,
            self.group_norm.weight,
            self.group_norm.bias,
            self.bias,
            self.group_norm.num_groups,
            self.group_norm.eps,
        )
