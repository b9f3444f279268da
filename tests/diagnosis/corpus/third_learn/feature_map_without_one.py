# about = "The feature map is elu alone, without the one that makes it positive."
# section = "mismatch"
# problem = "linear_attention_padded"
# causes = ["constant-added", "operator-missing", "wrong-activation", "activation-missing"]
# says = ["elu|activation|constant|missing|added|left out|feature|function|one"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float phi(float x) { return x > 0.f ? x : expm1f(x); }

// state[d][e] and key sums of one head
__global__ void accumulate_state(const float* k, const float* v, const int64_t* lengths, float* state, float* norm, int H, int T,
                                 int D, int E) {
    int bh = blockIdx.x, d = blockIdx.y, e = threadIdx.x;
    int len = lengths[bh / H];
    const float* kb = k + (size_t)bh * T * D;
    const float* vb = v + (size_t)bh * T * E;
    float s = 0.f, n = 0.f;
    for (int t = 0; t < len; ++t) {
        float f = phi(kb[t * D + d]);
        n += f;
        if (e < E) s += f * vb[t * E + e];
    }
    if (e < E) state[((size_t)bh * D + d) * E + e] = s;
    if (e == 0) norm[bh * D + d] = n;
}

__global__ void read_state(const float* q, const float* v, const float* state, const float* norm, const float* skip, float* out,
                           int H, int T, int D, int E) {
    int bh = blockIdx.y, t = blockIdx.x, e = threadIdx.x;
    if (e >= E) return;
    const float* qr = q + ((size_t)bh * T + t) * D;
    float num = 0.f, den = 0.f;
    for (int d = 0; d < D; ++d) {
        float f = phi(qr[d]);
        num += f * state[((size_t)bh * D + d) * E + e];
        den += f * norm[bh * D + d];
    }
    size_t at = ((size_t)bh * T + t) * E + e;
    out[at] = num / den + skip[bh % H] * v[at];
}

torch::Tensor linear_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), E = v.size(3);
    auto state = torch::empty({B, H, D, E}, q.options());
    auto norm = torch::empty({B, H, D}, q.options());
    auto out = torch::empty_like(v);
    auto stream = at::cuda::getCurrentCUDAStream();
    accumulate_state<<<dim3(B * H, D), 32, 0, stream>>>(k.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(),
                                                        state.data_ptr<float>(), norm.data_ptr<float>(), H, T, D, E);
    read_state<<<dim3(T, B * H), 32, 0, stream>>>(q.data_ptr<float>(), v.data_ptr<float>(), state.data_ptr<float>(),
                                                  norm.data_ptr<float>(), skip.data_ptr<float>(), out.data_ptr<float>(), H, T, D, E);
    return out;
}
"""

lin = load_inline(
    name="linear_attention_state",
    cpp_sources="torch::Tensor linear_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip);",
    cuda_sources=source,
    functions=["linear_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.randn(heads))

    def forward(self, q, k, v, lengths):
        return lin.linear_attention(q.contiguous(), k.contiguous(), v.contiguous(), lengths, self.skip)
