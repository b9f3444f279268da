# about = "The state and the normaliser are reset for every tile of sixteen keys, so that only the last tile remains."
# section = "mismatch"
# problem = "linear_attention_padded"
# causes = ["scan-restarts", "partial-sums-not-combined", "scatter-overwrites", "lost-last-block", "lost-lanes", "rescale-missing", "wrong-combine", "base-ignored"]
# says = ["tile|block|partial|earlier|carr|restart|forget|overwrit|combin|not all|lost|reset|part"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int TILE = 16;
constexpr int MAX_D = 16;
constexpr int MAX_E = 16;

__device__ __forceinline__ float elu1(float x) { return x > 0.f ? x + 1.f : __expf(x); }

__global__ void tiled(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                      const int64_t* __restrict__ lengths, const float* __restrict__ skip, float* __restrict__ out,
                      int H, int T, int D, int E) {
    __shared__ float kt[TILE][MAX_D], vt[TILE][MAX_E], state[MAX_D][MAX_E], z[MAX_D];
    const int bh = blockIdx.x, tid = threadIdx.x;
    const int d = tid / MAX_E, e = tid % MAX_E;
    const int len = (int)lengths[bh / H];
    float acc, zsum;
    for (int start = 0; start < len; start += TILE) {
        __syncthreads();
        for (int i = tid; i < TILE * MAX_D; i += blockDim.x) {
            const int t = start + i / MAX_D, c = i % MAX_D;
            kt[i / MAX_D][c] = t < len && c < D ? elu1(k[((size_t)bh * T + t) * D + c]) : 0.f;
            vt[i / MAX_D][c] = t < len && c < E ? v[((size_t)bh * T + t) * E + c] : 0.f;
        }
        __syncthreads();
        acc = 0.f;
        zsum = 0.f;
        #pragma unroll
        for (int t = 0; t < TILE; ++t) {
            acc += kt[t][d] * vt[t][e];
            zsum += kt[t][d];
        }
    }
    state[d][e] = acc;
    if (e == 0) z[d] = zsum;
    __syncthreads();
    const float keep = skip[bh % H];
    for (int i = tid; i < T * E; i += blockDim.x) {
        const int t = i / E, c = i % E;
        float num = 0.f, den = 0.f;
        for (int j = 0; j < D; ++j) {
            const float f = elu1(q[((size_t)bh * T + t) * D + j]);
            num += f * state[j][c];
            den += f * z[j];
        }
        out[(size_t)bh * T * E + i] = num / den + keep * v[(size_t)bh * T * E + i];
    }
}

torch::Tensor tiled_linear(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip) {
    TORCH_CHECK(q.size(3) <= MAX_D && v.size(3) <= MAX_E, "heads of up to 16 features");
    auto out = torch::empty_like(v);
    tiled<<<q.size(0) * q.size(1), MAX_D * MAX_E, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(), skip.data_ptr<float>(),
        out.data_ptr<float>(), q.size(1), q.size(2), q.size(3), v.size(3));
    return out;
}
"""

ext = load_inline(
    name="tiled_linear_attention",
    cpp_sources="torch::Tensor tiled_linear(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip);",
    cuda_sources=SRC,
    functions=["tiled_linear"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.randn(heads))

    def forward(self, q, k, v, lengths):
        return ext.tiled_linear(q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous(), self.skip)
