"""Verified kernel for level2/conv_group_norm_tanh_hardswish_residual_logsumexp, made by kernelwright 0.1.0.

Run:       20261123-114658-conv_group_norm_tanh-4ce5, attempt 2 (model)
Problem:   level2/conv_group_norm_tanh_hardswish_residual_logsumexp (source 632426a79098101b)
Verified:  GPU, full shapes, isolation namespaces, full protocol, not confirmed by a second look
Skipped:   compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a new best only
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  10.5% of the allowed error, 15 draws
Measured:  0.6984 ms median (p20 0.6562, p80 0.7605) on NVIDIA H200, 2.90x against compile (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cstdint>

namespace {

constexpr int CIN = 8;
constexpr int COUT = 64;
constexpr int GROUPS = 16;          // 4 channels a group
constexpr int HIN = 128;
constexpr int HOUT = 126;
constexpr int PLANE = HOUT * HOUT;  // 15876
constexpr int QUADS = PLANE / 4;    // 3969
constexpr int TILES = 32;           // tiles of 4 output rows
constexpr int THREADS = 128;
constexpr int U_FLOATS = GROUPS * CIN * 72;   // 9216
constexpr int V_COMP = 192;                   // 32 lanes x 6 rows
constexpr int V_C = 6 * V_COMP;               // 1152
constexpr int V_FLOATS = CIN * V_C;           // 9216
constexpr int SMEM_BYTES = (U_FLOATS + V_FLOATS) * 4;

// U[group][c][comp][r][4]
__global__ void weight_kernel(const float* __restrict__ w, float* __restrict__ U) {
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= U_FLOATS) return;
    const int k4 = idx % 4;
    const int r = (idx / 4) % 3;
    const int comp = (idx / 12) % 6;
    const int c = (idx / 72) % CIN;
    const int g = idx / (72 * CIN);
    const float* p = w + ((g * 4 + k4) * CIN + c) * 9 + r * 3;
    const double g0 = p[0], g1 = p[1], g2 = p[2];
    double u;
    switch (comp) {
        case 0: u = g0 * 0.25; break;
        case 1: u = -(g0 + g1 + g2) / 6.0; break;
        case 2: u = -(g0 - g1 + g2) / 6.0; break;
        case 3: u = g0 / 24.0 + g1 / 12.0 + g2 / 6.0; break;
        case 4: u = g0 / 24.0 - g1 / 12.0 + g2 / 6.0; break;
        default: u = g2; break;
    }
    U[idx] = static_cast<float>(u);
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void __launch_bounds__(THREADS, 3) conv_kernel(
    const float* __restrict__ x, const float* __restrict__ U, const float* __restrict__ cbias,
    float* __restrict__ y, float2* __restrict__ part) {
    extern __shared__ __align__(128) float smem[];
    float* us = smem;
    float* vs = smem + U_FLOATS;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int tile = blockIdx.x;
    const int n = blockIdx.y;
    const int h0 = tile * 4;
    const bool full = (h0 + 4 <= HOUT);     // the last tile has two rows

#pragma unroll
    for (int i = 0; i < U_FLOATS / 4 / THREADS; ++i) {
        const int q = (tid + i * THREADS) * 4;
        const uint32_t d = static_cast<uint32_t>(__cvta_generic_to_shared(us + q));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(d), "l"(U + q) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");

    // input transform: a warp takes two input channels, a lane one tile of columns
#pragma unroll
    for (int cc = 0; cc < 2; ++cc) {
        const int c = warp * 2 + cc;
        const float* xp = x + (static_cast<size_t>(n * CIN + c) * HIN + h0) * HIN + lane * 4;
        float4 raw[6];
#pragma unroll
        for (int row = 0; row < 6; ++row) {
            raw[row] = make_float4(0.f, 0.f, 0.f, 0.f);
            if (h0 + row < HIN) raw[row] = *reinterpret_cast<const float4*>(xp + row * HIN);
        }
        float v[6][6];   // [comp][row]
#pragma unroll
        for (int row = 0; row < 6; ++row) {
            const float d0 = raw[row].x, d1 = raw[row].y, d2 = raw[row].z, d3 = raw[row].w;
            float d4 = __shfl_down_sync(0xffffffffu, d0, 1);
            float d5 = __shfl_down_sync(0xffffffffu, d1, 1);
            if (lane == 31) { d4 = 0.f; d5 = 0.f; }
            v[0][row] = fmaf(4.f, d0, fmaf(-5.f, d2, d4));
            const float a = fmaf(-4.f, d2, d4);
            const float b = fmaf(-4.f, d1, d3);
            v[1][row] = a + b;
            v[2][row] = a - b;
            const float e = d4 - d2;
            const float f = 2.f * (d3 - d1);
            v[3][row] = e + f;
            v[4][row] = e - f;
            v[5][row] = fmaf(4.f, d1, fmaf(-5.f, d3, d5));
        }
        float* vp = vs + c * V_C;
#pragma unroll
        for (int comp = 0; comp < 6; ++comp) {
            *reinterpret_cast<float4*>(vp + comp * V_COMP + lane * 4) =
                make_float4(v[comp][0], v[comp][1], v[comp][2], v[comp][3]);
            *reinterpret_cast<float2*>(vp + comp * V_COMP + 128 + lane * 2) =
                make_float2(v[comp][4], v[comp][5]);
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    const bool wide = lane < 31;     // lane 31 has only columns 124 and 125
    const float inv_count = 1.0f / (full ? 2016.f : 1008.f);

#pragma unroll 1
    for (int gi = 0; gi < 4; ++gi) {
        const int g = warp + gi * 4;
        float acc[6][4][4];          // [comp][channel][row]
        const float4 bt = *reinterpret_cast<const float4*>(cbias + g * 4);
        const float bk[4] = {bt.x, bt.y, bt.z, bt.w};
#pragma unroll
        for (int comp = 0; comp < 6; ++comp)
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
                for (int row = 0; row < 4; ++row) acc[comp][k][row] = (comp == 1) ? bk[k] : 0.f;

        const float* vp = vs + lane * 4;
        const float* vq = vs + 128 + lane * 2;
        const float* up = us + g * CIN * 72;
#pragma unroll 1
        for (int c = 0; c < CIN; ++c) {
#pragma unroll
            for (int comp = 0; comp < 6; ++comp) {
                const float4 a = *reinterpret_cast<const float4*>(vp + comp * V_COMP);
                const float2 b = *reinterpret_cast<const float2*>(vq + comp * V_COMP);
                const float v[6] = {a.x, a.y, a.z, a.w, b.x, b.y};
#pragma unroll
                for (int r = 0; r < 3; ++r) {
                    const float4 u = *reinterpret_cast<const float4*>(up + comp * 12 + r * 4);
#pragma unroll
                    for (int row = 0; row < 4; ++row) {
                        acc[comp][0][row] = fmaf(u.x, v[row + r], acc[comp][0][row]);
                        acc[comp][1][row] = fmaf(u.y, v[row + r], acc[comp][1][row]);
                        acc[comp][2][row] = fmaf(u.z, v[row + r], acc[comp][2][row]);
                        acc[comp][3][row] = fmaf(u.w, v[row + r], acc[comp][3][row]);
                    }
                }
            }
            vp += V_C;
            vq += V_C;
            up += 72;
        }

        // output transform, store, sum
        float o[4][4][4];            // [channel][row][column]
        float sum = 0.f;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int row = 0; row < 4; ++row) {
                const float s12 = acc[1][k][row] + acc[2][k][row];
                const float d12 = acc[1][k][row] - acc[2][k][row];
                const float s34 = acc[3][k][row] + acc[4][k][row];
                const float d34 = acc[3][k][row] - acc[4][k][row];
                const float o0 = acc[0][k][row] + s12 + s34;
                const float o1 = fmaf(2.f, d34, d12);
                const float o2 = fmaf(4.f, s34, s12);
                const float o3 = fmaf(8.f, d34, d12) + acc[5][k][row];
                o[k][row][0] = o0;
                o[k][row][1] = o1;
                o[k][row][2] = o2;
                o[k][row][3] = o3;
                if (row < 2 || full) {
                    float* yb = y + (static_cast<size_t>(n * COUT + g * 4 + k) * HOUT + (h0 + row)) * HOUT;
                    if ((row & 1) == 0) {
                        if (wide) *reinterpret_cast<float4*>(yb + lane * 4) = make_float4(o0, o1, o2, o3);
                        else *reinterpret_cast<float2*>(yb + lane * 4) = make_float2(o0, o1);
                    } else {
                        const float p2 = __shfl_up_sync(0xffffffffu, o2, 1);
                        const float p3 = __shfl_up_sync(0xffffffffu, o3, 1);
                        if (lane > 0) *reinterpret_cast<float4*>(yb + lane * 4 - 2) = make_float4(p2, p3, o0, o1);
                        else *reinterpret_cast<float2*>(yb) = make_float2(o0, o1);
                    }
                    sum += (o0 + o1) + (wide ? (o2 + o3) : 0.f);
                }
            }
        }
        const float mean = warp_sum(sum) * inv_count;
        float m2a = 0.f, m2b = 0.f;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int row = 0; row < 4; ++row) {
                if (row < 2 || full) {
                    const float e0 = o[k][row][0] - mean;
                    const float e1 = o[k][row][1] - mean;
                    const float e2 = o[k][row][2] - mean;
                    const float e3 = o[k][row][3] - mean;
                    m2a = fmaf(e0, e0, m2a);
                    m2a = fmaf(e1, e1, m2a);
                    m2b = fmaf(e2, e2, m2b);
                    m2b = fmaf(e3, e3, m2b);
                }
            }
        }
        const float m2 = warp_sum(m2a + (wide ? m2b : 0.f));
        if (lane == 0) part[(n * GROUPS + g) * TILES + tile] = make_float2(mean, m2);
    }
}

__device__ __forceinline__ double warp_sum_d(double v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// a block a sample, a warp a group, a lane a row tile
__global__ void __launch_bounds__(512) stats_kernel(
    const float2* __restrict__ part, const float* __restrict__ gamma, const float* __restrict__ beta,
    float2* __restrict__ ss, double eps) {
    const int lane = threadIdx.x & 31;
    const int g = threadIdx.x >> 5;
    const int n = blockIdx.x;
    const float2 p = part[(n * GROUPS + g) * TILES + lane];
    const double cnt = lane < 31 ? 2016.0 : 1008.0;
    const double total = 4.0 * PLANE;
    const double mean = warp_sum_d(cnt * p.x) / total;
    const double d = static_cast<double>(p.x) - mean;
    const double m2 = warp_sum_d(static_cast<double>(p.y) + cnt * d * d);
    if (lane < 4) {
        const double rstd = 1.0 / sqrt(m2 / total + eps);
        const int k = g * 4 + lane;
        const double two_log2e = 2.0 * 1.4426950408889634074;
        const double sc = rstd * static_cast<double>(gamma[k]);
        const double sh = static_cast<double>(beta[k]) - mean * sc;
        ss[n * COUT + k] = make_float2(static_cast<float>(sc * two_log2e), static_cast<float>(sh * two_log2e));
    }
}

__device__ __forceinline__ float ex2(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
__device__ __forceinline__ float rcp(float v) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// convolved + hardswish(tanh(a)) - 2/3
__device__ __forceinline__ float activate(float c, float2 s) {
    const float r = rcp(1.0f + ex2(fmaf(c, s.x, s.y)));
    return fmaf(r, fmaf(0.66666666666667f, r, -1.66666666666667f), c);
}

__device__ __forceinline__ void accumulate(float v0, float v1, float v2, float v3,
                                           float& m, float& ml, float& s) {
    const float L2E = 1.4426950408889634f;
    const float cm = fmaxf(fmaxf(v0, v1), fmaxf(v2, v3));
    if (cm > m + 16.f) {             // rare: a new reference
        const float nml = cm * L2E;
        s *= ex2(ml - nml);
        m = cm;
        ml = nml;
    }
    s += (ex2(fmaf(v0, L2E, -ml)) + ex2(fmaf(v1, L2E, -ml))) +
         (ex2(fmaf(v2, L2E, -ml)) + ex2(fmaf(v3, L2E, -ml)));
}

constexpr int T2 = 192;

__global__ void __launch_bounds__(T2, 4) final_kernel(
    const float4* __restrict__ y, const float2* __restrict__ ss, float4* __restrict__ out) {
    __shared__ float2 sss[COUT];
    const int n = gridDim.y - 1 - blockIdx.y;
    if (threadIdx.x < COUT) sss[threadIdx.x] = ss[n * COUT + threadIdx.x];
    const int quad = blockIdx.x * T2 + threadIdx.x;
    const bool ok = quad < QUADS;
    const float4* yp = y + static_cast<size_t>(n) * COUT * QUADS + (ok ? quad : 0);

    float4 cur[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) cur[j] = __ldcs(yp + j * QUADS);
    __syncthreads();
    if (!ok) return;

    float m[4], ml[4], s[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) { m[p] = -INFINITY; ml[p] = -INFINITY; s[p] = 0.f; }

#pragma unroll 2
    for (int ch = 0; ch < COUT; ch += 4) {
        float4 nxt[4];
        yp += 4 * QUADS;
        if (ch + 4 < COUT) {
#pragma unroll
            for (int j = 0; j < 4; ++j) nxt[j] = __ldcs(yp + j * QUADS);
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) nxt[j] = make_float4(0.f, 0.f, 0.f, 0.f);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 t = sss[ch + j];
            cur[j].x = activate(cur[j].x, t);
            cur[j].y = activate(cur[j].y, t);
            cur[j].z = activate(cur[j].z, t);
            cur[j].w = activate(cur[j].w, t);
        }
        accumulate(cur[0].x, cur[1].x, cur[2].x, cur[3].x, m[0], ml[0], s[0]);
        accumulate(cur[0].y, cur[1].y, cur[2].y, cur[3].y, m[1], ml[1], s[1]);
        accumulate(cur[0].z, cur[1].z, cur[2].z, cur[3].z, m[2], ml[2], s[2]);
        accumulate(cur[0].w, cur[1].w, cur[2].w, cur[3].w, m[3], ml[3], s[3]);
#pragma unroll
        for (int j = 0; j < 4; ++j) cur[j] = nxt[j];
    }
    const float shift = 0.66666666666667f;
    float4 r;
    r.x = m[0] + (logf(s[0]) + shift);
    r.y = m[1] + (logf(s[1]) + shift);
    r.z = m[2] + (logf(s[2]) + shift);
    r.w = m[3] + (logf(s[3]) + shift);
    out[static_cast<size_t>(n) * QUADS + quad] = r;
}

}  // namespace

torch::Tensor fused_cuda(torch::Tensor x, torch::Tensor weight, torch::Tensor cbias,
                         torch::Tensor gamma, torch::Tensor beta, double eps) {
    auto xc = x.contiguous();
    auto wc = weight.contiguous();
    auto cb = cbias.contiguous();
    auto ga = gamma.contiguous();
    auto be = beta.contiguous();
    TORCH_CHECK(xc.scalar_type() == torch::kFloat32, "float32 expected");
    TORCH_CHECK(xc.dim() == 4 && xc.size(1) == CIN && xc.size(2) == HIN && xc.size(3) == HIN, "unexpected input shape");
    TORCH_CHECK(wc.numel() == COUT * CIN * 9 && cb.numel() == COUT && ga.numel() == COUT && be.numel() == COUT,
                "unexpected parameter shape");
    const int N = static_cast<int>(xc.size(0));
    auto out = torch::empty({N, 1, HOUT, HOUT}, xc.options());
    if (N == 0) return out;
    auto U = torch::empty({U_FLOATS}, xc.options());
    auto y = torch::empty({N, COUT, HOUT, HOUT}, xc.options());
    auto part = torch::empty({N, GROUPS, TILES, 2}, xc.options());
    auto ss = torch::empty({N, COUT, 2}, xc.options());
    auto stream = at::cuda::getCurrentCUDAStream();

    weight_kernel<<<(U_FLOATS + 255) / 256, 256, 0, stream>>>(wc.data_ptr<float>(), U.data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES));
    conv_kernel<<<dim3(TILES, N), THREADS, SMEM_BYTES, stream>>>(
        xc.data_ptr<float>(), U.data_ptr<float>(), cb.data_ptr<float>(), y.data_ptr<float>(),
        reinterpret_cast<float2*>(part.data_ptr<float>()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    stats_kernel<<<N, 512, 0, stream>>>(
        reinterpret_cast<const float2*>(part.data_ptr<float>()), ga.data_ptr<float>(), be.data_ptr<float>(),
        reinterpret_cast<float2*>(ss.data_ptr<float>()), eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    final_kernel<<<dim3((QUADS + T2 - 1) / T2, N), T2, 0, stream>>>(
        reinterpret_cast<const float4*>(y.data_ptr<float>()),
        reinterpret_cast<const float2*>(ss.data_ptr<float>()),
        reinterpret_cast<float4*>(out.data_ptr<float>()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = (
    "torch::Tensor fused_cuda(torch::Tensor x, torch::Tensor weight, torch::Tensor cbias, "
    "torch::Tensor gamma, torch::Tensor beta, double eps);"
)

extension = load_inline(
    name="conv_gn_tanh_hardswish_lse_fp32",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["fused_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int, eps: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.fused_cuda(
            x, self.conv.weight.detach(), self.conv.bias.detach(),
            self.group_norm.weight.detach(), self.group_norm.bias.detach(), self.group_norm.eps)
