"""Verified kernel for narrow_mlp, made by kernelwright 0.1.0.

Run:       20261125-233739-narrow_mlp-7407, attempt 1 (model)
Problem:   narrow_mlp (source 63e8809f2f97b5da)
Verified:  GPU, full shapes, isolation namespaces, full protocol, confirmed by a second look
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  10.0% of the allowed error, 15 draws
Measured:  0.1126 ms median (p20 0.1119, p80 0.1131) on NVIDIA H100 80GB HBM3, 4.09x against max-autotune (CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock where those take longer; second clock: wall time in the judge)
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int IN = 16;
constexpr int HID = 32;
constexpr int OUT = 4;
constexpr int THREADS = 128;
constexpr int P = 4;               // points of a thread
constexpr int CHUNK = THREADS * P;

__device__ __forceinline__ float sigmoid(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950408889634f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
    return r;
}
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

__global__ void __launch_bounds__(THREADS, 2) narrow_mlp_kernel(
    const float* __restrict__ x,
    const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2,
    const float* __restrict__ w3, const float* __restrict__ b3,
    float* __restrict__ y, int64_t points) {
    __shared__ __align__(16) float s1[HID * IN];     // [hidden][in]
    __shared__ __align__(16) float s2[HID * HID];    // [first hidden][second hidden]
    __shared__ __align__(16) float s3[HID * OUT];    // [second hidden][out]
    __shared__ __align__(16) float sb1[HID];
    __shared__ __align__(16) float sb2[HID];
    __shared__ __align__(16) float sb3[OUT];
    for (int i = threadIdx.x; i < HID * IN; i += THREADS) s1[i] = w1[i];
    for (int i = threadIdx.x; i < HID * HID; i += THREADS) s2[i] = w2[(i % HID) * HID + i / HID];
    for (int i = threadIdx.x; i < HID * OUT; i += THREADS) s3[i] = w3[(i % OUT) * HID + i / OUT];
    if (threadIdx.x < HID) {
        sb1[threadIdx.x] = b1[threadIdx.x];
        sb2[threadIdx.x] = b2[threadIdx.x];
    }
    if (threadIdx.x < OUT) sb3[threadIdx.x] = b3[threadIdx.x];
    __syncthreads();

    const int64_t stride = static_cast<int64_t>(gridDim.x) * CHUNK;
    for (int64_t base = static_cast<int64_t>(blockIdx.x) * CHUNK; base < points; base += stride) {
        float in[P][IN];
        #pragma unroll
        for (int p = 0; p < P; ++p) {
            int64_t point = base + p * THREADS + threadIdx.x;
            if (point >= points) point = points - 1;
            const float4* row = reinterpret_cast<const float4*>(x + point * IN);
            #pragma unroll
            for (int i = 0; i < IN / 4; ++i) {
                const float4 a = __ldg(row + i);
                in[p][4 * i] = a.x;
                in[p][4 * i + 1] = a.y;
                in[p][4 * i + 2] = a.z;
                in[p][4 * i + 3] = a.w;
            }
        }
        #pragma unroll
        for (int p = 0; p < P; ++p) {
            const int64_t point = base + stride + p * THREADS + threadIdx.x;
            if (point < points) asm volatile("prefetch.global.L2 [%0];\n" :: "l"(x + point * IN));
        }

        float acc[P][HID];
        #pragma unroll
        for (int o = 0; o < HID; o += 4) {
            const float4 b = *reinterpret_cast<const float4*>(sb2 + o);
            #pragma unroll
            for (int p = 0; p < P; ++p) {
                acc[p][o] = b.x;
                acc[p][o + 1] = b.y;
                acc[p][o + 2] = b.z;
                acc[p][o + 3] = b.w;
            }
        }

        #pragma unroll 1
        for (int k = 0; k < HID; k += 2) {
            float h[2][P];
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float b = sb1[k + j];
                #pragma unroll
                for (int p = 0; p < P; ++p) h[j][p] = b;
            }
            #pragma unroll
            for (int i = 0; i < IN; i += 4) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const float4 w = *reinterpret_cast<const float4*>(s1 + (k + j) * IN + i);
                    #pragma unroll
                    for (int p = 0; p < P; ++p) {
                        h[j][p] = fmaf(in[p][i], w.x, h[j][p]);
                        h[j][p] = fmaf(in[p][i + 1], w.y, h[j][p]);
                        h[j][p] = fmaf(in[p][i + 2], w.z, h[j][p]);
                        h[j][p] = fmaf(in[p][i + 3], w.w, h[j][p]);
                    }
                }
            }
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int p = 0; p < P; ++p) h[j][p] = silu(h[j][p]);
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int o = 0; o < HID; o += 4) {
                    const float4 w = *reinterpret_cast<const float4*>(s2 + (k + j) * HID + o);
                    #pragma unroll
                    for (int p = 0; p < P; ++p) {
                        acc[p][o] = fmaf(h[j][p], w.x, acc[p][o]);
                        acc[p][o + 1] = fmaf(h[j][p], w.y, acc[p][o + 1]);
                        acc[p][o + 2] = fmaf(h[j][p], w.z, acc[p][o + 2]);
                        acc[p][o + 3] = fmaf(h[j][p], w.w, acc[p][o + 3]);
                    }
                }
            }
        }

        const float4 b = *reinterpret_cast<const float4*>(sb3);
        float4 r[P];
        #pragma unroll
        for (int p = 0; p < P; ++p) r[p] = b;
        #pragma unroll
        for (int o = 0; o < HID; ++o) {
            const float4 w = *reinterpret_cast<const float4*>(s3 + o * OUT);
            #pragma unroll
            for (int p = 0; p < P; ++p) {
                const float s = silu(acc[p][o]);
                r[p].x = fmaf(s, w.x, r[p].x);
                r[p].y = fmaf(s, w.y, r[p].y);
                r[p].z = fmaf(s, w.z, r[p].z);
                r[p].w = fmaf(s, w.w, r[p].w);
            }
        }
        #pragma unroll
        for (int p = 0; p < P; ++p) {
            const int64_t point = base + p * THREADS + threadIdx.x;
            if (point < points)
                __stcs(reinterpret_cast<float4*>(y) + point,
                       make_float4(sigmoid(r[p].x), sigmoid(r[p].y), sigmoid(r[p].z), sigmoid(r[p].w)));
        }
    }
}

torch::Tensor narrow_mlp_cuda(torch::Tensor x_, torch::Tensor w1_, torch::Tensor b1_, torch::Tensor w2_,
                              torch::Tensor b2_, torch::Tensor w3_, torch::Tensor b3_) {
    const c10::cuda::CUDAGuard guard(x_.device());
    auto x = x_.contiguous();
    auto w1 = w1_.contiguous(), w2 = w2_.contiguous(), w3 = w3_.contiguous();
    auto b1 = b1_.contiguous(), b2 = b2_.contiguous(), b3 = b3_.contiguous();
    TORCH_CHECK(x.dim() == 2 && x.size(1) == IN && x.scalar_type() == torch::kFloat32, "expected float32 (points, 16)");
    TORCH_CHECK(w1.size(0) == HID && w2.size(0) == HID && w2.size(1) == HID && w3.size(0) == OUT,
                "expected layers 16, 32, 32, 4");
    const int64_t points = x.size(0);
    auto y = torch::empty({points, OUT}, x.options());
    if (points == 0) return y;
    const int64_t chunks = (points + CHUNK - 1) / CHUNK;
    const int64_t most = 2 * static_cast<int64_t>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
    const unsigned blocks = static_cast<unsigned>(chunks < most ? chunks : most);
    narrow_mlp_kernel<<<blocks, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w1.data_ptr<float>(), b1.data_ptr<float>(), w2.data_ptr<float>(),
        b2.data_ptr<float>(), w3.data_ptr<float>(), b3.data_ptr<float>(), y.data_ptr<float>(), points);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

cpp_source = (
    "torch::Tensor narrow_mlp_cuda(torch::Tensor x_, torch::Tensor w1_, torch::Tensor b1_, torch::Tensor w2_, "
    "torch::Tensor b2_, torch::Tensor w3_, torch::Tensor b3_);"
)

extension = load_inline(
    name="narrow_mlp",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["narrow_mlp_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, out_features), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = self.layers[0], self.layers[2], self.layers[4]
        return extension.narrow_mlp_cuda(
            x, first.weight, first.bias, second.weight, second.bias, third.weight, third.bias
        )
