"""Verified kernel for window_attention, made by kernelwright 0.1.0.

Run:       20261125-233853-window_attention-bc87, attempt 1 (model)
Problem:   window_attention (source eac04941a1a92426)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Skipped:   inputs scaled by 32: the float32 reference itself is off by 0.001 of the output's size
Accuracy:  11.1% of the allowed error, 14 draws
Measured:  0.2589 ms median (p20 0.2568, p80 0.2612) on NVIDIA H100 80GB HBM3, 1.96x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int T = 49;
constexpr int D = 32;
constexpr int WARPS = 5;
constexpr int QS = 36;              // padded row of Q and K
constexpr int PS = 52;              // padded row of P and of the bias
constexpr int Q_OFF = 0;
constexpr int K_OFF = T * QS;       // 1764
constexpr int V_OFF = K_OFF + 52 * QS;   // 3636
constexpr int WARP_FLOATS = V_OFF + T * D;  // 5204
constexpr int SMEM_FLOATS = T * PS + WARPS * WARP_FLOATS;
constexpr int MAT = T * D;          // 1568
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ void cp16(float* dst, const float* src) {
    unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(d), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_wait() {
    asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory");
}
__device__ __forceinline__ void prefetch_l2(const float* p) {
    asm volatile("prefetch.global.L2 [%0];\n" :: "l"(p));
}
__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__global__ void __launch_bounds__(WARPS * 32, 2) window_attention_kernel(
    const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
    const float* __restrict__ bias, float* __restrict__ out,
    int windows, int heads, float scale_log2e) {
    extern __shared__ __align__(16) float smem[];
    const int warp = threadIdx.x >> 5;
    const int lane = threadIdx.x & 31;
    const int head = blockIdx.x % heads;
    const int group = blockIdx.x / heads;
    const int groups = gridDim.x / heads;

    float* sb = smem;
    float* base = smem + T * PS + warp * WARP_FLOATS;
    float* sq = base + Q_OFF;
    float* sk = base + K_OFF;
    float* sv = base + V_OFF;
    float* sp = base;               // over Q and the first rows of K

    for (int i = threadIdx.x; i < T * PS; i += WARPS * 32) {
        const int r = i / PS, c = i - r * PS;
        sb[i] = c < T ? bias[(static_cast<int64_t>(head) * T + r) * T + c] * LOG2E
                      : __int_as_float(0xff800000);
    }
    for (int i = lane; i < 3 * QS; i += 32) sk[T * QS + i] = 0.0f;
    __syncthreads();

    const int tx = lane & 3;
    const int ty = min(lane >> 2, 6);
    const bool active = lane < 28;

    for (int w = group * WARPS + warp; w < windows; w += groups * WARPS) {
        const int64_t off = (static_cast<int64_t>(w) * heads + head) * MAT;
        const float* gq = q + off;
        const float* gk = k + off;
        const float* gv = v + off;
        #pragma unroll 4
        for (int i = lane; i < MAT / 4; i += 32) {
            const int s = (i >> 3) * QS + (i & 7) * 4;
            cp16(sq + s, gq + i * 4);
            cp16(sk + s, gk + i * 4);
        }
        cp_commit();
        #pragma unroll 4
        for (int i = lane; i < MAT / 4; i += 32) cp16(sv + i * 4, gv + i * 4);
        cp_commit();

        const int wn = w + groups * WARPS;
        if (wn < windows) {
            const int64_t offn = (static_cast<int64_t>(wn) * heads + head) * MAT;
            prefetch_l2(q + offn + lane * 32);
            prefetch_l2(k + offn + lane * 32);
            prefetch_l2(v + offn + lane * 32);
            if (lane < T - 32) {
                prefetch_l2(q + offn + (lane + 32) * 32);
                prefetch_l2(k + offn + (lane + 32) * 32);
                prefetch_l2(v + offn + (lane + 32) * 32);
            }
        }
        cp_wait<1>();
        __syncwarp();

        float acc[7][13];
        #pragma unroll
        for (int r = 0; r < 7; ++r)
            #pragma unroll
            for (int c = 0; c < 13; ++c) acc[r][c] = 0.0f;

        #pragma unroll 1
        for (int d = 0; d < D; d += 4) {
            float4 a[7];
            #pragma unroll
            for (int r = 0; r < 7; ++r)
                a[r] = *reinterpret_cast<const float4*>(sq + (ty + 7 * r) * QS + d);
            #pragma unroll
            for (int c = 0; c < 13; ++c) {
                const float4 b = *reinterpret_cast<const float4*>(sk + (tx + 4 * c) * QS + d);
                #pragma unroll
                for (int r = 0; r < 7; ++r) {
                    acc[r][c] = fmaf(a[r].x, b.x, acc[r][c]);
                    acc[r][c] = fmaf(a[r].y, b.y, acc[r][c]);
                    acc[r][c] = fmaf(a[r].z, b.z, acc[r][c]);
                    acc[r][c] = fmaf(a[r].w, b.w, acc[r][c]);
                }
            }
        }
        __syncwarp();   // Q and K are read: P may take their place

        float inv[7];
        #pragma unroll
        for (int r = 0; r < 7; ++r) {
            const float* brow = sb + (ty + 7 * r) * PS + tx;
            float* prow = sp + (ty + 7 * r) * PS + tx;
            float m = __int_as_float(0xff800000);
            #pragma unroll
            for (int c = 0; c < 13; ++c) {
                acc[r][c] = fmaf(acc[r][c], scale_log2e, brow[4 * c]);
                m = fmaxf(m, acc[r][c]);
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            float s = 0.0f;
            #pragma unroll
            for (int c = 0; c < 13; ++c) {
                const float p = ex2(acc[r][c] - m);
                s += p;
                prow[4 * c] = p;
            }
            s += __shfl_xor_sync(0xffffffffu, s, 1);
            s += __shfl_xor_sync(0xffffffffu, s, 2);
            inv[r] = 1.0f / s;
        }
        cp_wait<0>();
        __syncwarp();

        float o[7][8];
        #pragma unroll
        for (int r = 0; r < 7; ++r)
            #pragma unroll
            for (int c = 0; c < 8; ++c) o[r][c] = 0.0f;

        #pragma unroll 1
        for (int j = 0; j < 48; j += 4) {
            float p[7][4];
            #pragma unroll
            for (int r = 0; r < 7; ++r) {
                const float4 t = *reinterpret_cast<const float4*>(sp + (ty + 7 * r) * PS + j);
                p[r][0] = t.x; p[r][1] = t.y; p[r][2] = t.z; p[r][3] = t.w;
            }
            #pragma unroll
            for (int jj = 0; jj < 4; ++jj) {
                const float4 b0 = *reinterpret_cast<const float4*>(sv + (j + jj) * D + tx * 4);
                const float4 b1 = *reinterpret_cast<const float4*>(sv + (j + jj) * D + 16 + tx * 4);
                #pragma unroll
                for (int r = 0; r < 7; ++r) {
                    const float x = p[r][jj];
                    o[r][0] = fmaf(x, b0.x, o[r][0]);
                    o[r][1] = fmaf(x, b0.y, o[r][1]);
                    o[r][2] = fmaf(x, b0.z, o[r][2]);
                    o[r][3] = fmaf(x, b0.w, o[r][3]);
                    o[r][4] = fmaf(x, b1.x, o[r][4]);
                    o[r][5] = fmaf(x, b1.y, o[r][5]);
                    o[r][6] = fmaf(x, b1.z, o[r][6]);
                    o[r][7] = fmaf(x, b1.w, o[r][7]);
                }
            }
        }
        {
            const float4 b0 = *reinterpret_cast<const float4*>(sv + 48 * D + tx * 4);
            const float4 b1 = *reinterpret_cast<const float4*>(sv + 48 * D + 16 + tx * 4);
            #pragma unroll
            for (int r = 0; r < 7; ++r) {
                const float x = sp[(ty + 7 * r) * PS + 48];
                o[r][0] = fmaf(x, b0.x, o[r][0]);
                o[r][1] = fmaf(x, b0.y, o[r][1]);
                o[r][2] = fmaf(x, b0.z, o[r][2]);
                o[r][3] = fmaf(x, b0.w, o[r][3]);
                o[r][4] = fmaf(x, b1.x, o[r][4]);
                o[r][5] = fmaf(x, b1.y, o[r][5]);
                o[r][6] = fmaf(x, b1.z, o[r][6]);
                o[r][7] = fmaf(x, b1.w, o[r][7]);
            }
        }
        __syncwarp();   // all of shared memory is read: the next loads may start

        if (active) {
            float* go = out + off;
            #pragma unroll
            for (int r = 0; r < 7; ++r) {
                const float z = inv[r];
                float* row = go + (ty + 7 * r) * D + tx * 4;
                __stcs(reinterpret_cast<float4*>(row),
                       make_float4(o[r][0] * z, o[r][1] * z, o[r][2] * z, o[r][3] * z));
                __stcs(reinterpret_cast<float4*>(row + 16),
                       make_float4(o[r][4] * z, o[r][5] * z, o[r][6] * z, o[r][7] * z));
            }
        }
    }
}

torch::Tensor window_attention_cuda(torch::Tensor q_, torch::Tensor k_, torch::Tensor v_,
                                    torch::Tensor bias_, double scale) {
    const c10::cuda::CUDAGuard guard(q_.device());
    auto q = q_.contiguous();
    auto k = k_.contiguous();
    auto v = v_.contiguous();
    auto bias = bias_.contiguous();
    TORCH_CHECK(q.dim() == 4 && q.size(2) == T && q.size(3) == D, "expected (windows, heads, 49, 32)");
    TORCH_CHECK(q.scalar_type() == torch::kFloat32, "expected float32");
    auto out = torch::empty_like(q);
    const int windows = static_cast<int>(q.size(0));
    const int heads = static_cast<int>(q.size(1));
    if (windows == 0 || heads == 0) return out;
    const int smem = SMEM_FLOATS * static_cast<int>(sizeof(float));
    C10_CUDA_CHECK(cudaFuncSetAttribute(window_attention_kernel,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    int groups = (2 * sms) / heads;
    const int most = (windows + WARPS - 1) / WARPS;
    if (groups > most) groups = most;
    if (groups < 1) groups = 1;
    window_attention_kernel<<<groups * heads, WARPS * 32, smem, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), bias.data_ptr<float>(),
        out.data_ptr<float>(), windows, heads, static_cast<float>(scale * 1.4426950408889634));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_source = (
    "torch::Tensor window_attention_cuda(torch::Tensor q_, torch::Tensor k_, torch::Tensor v_, "
    "torch::Tensor bias_, double scale);"
)

extension = load_inline(
    name="window_attention_49",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["window_attention_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, heads: int, tokens: int, head_dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, tokens, tokens))
        self.scale = head_dim**-0.5

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return extension.window_attention_cuda(q, k, v, self.bias, self.scale)
