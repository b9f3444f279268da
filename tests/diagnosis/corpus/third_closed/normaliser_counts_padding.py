# about = "The normaliser sums the features of all keys, padding too; the state leaves the padding out."
# section = "mismatch"
# problem = "linear_attention_padded"
# causes = ["mask-ignored", "padding-ignored", "wrong-divisor", "ignored-class-counted", "pool-divisor", "first-batch-only"]
# says = ["mask|pad|length|divi|normal|denominator|count|sample|batch"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ float feature(float x) { return x > 0.0f ? x + 1.0f : expf(x); }

__global__ void key_sum(const float* k, float* total, int T, int D) {
    // one warp per (head, feature)
    int bh = blockIdx.x, d = blockIdx.y;
    float s = 0.0f;
    for (int t = threadIdx.x; t < T; t += 32) s += feature(k[(bh * T + t) * D + d]);
    for (int o = 16; o > 0; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);
    if (threadIdx.x == 0) total[bh * D + d] = s;
}

__global__ void key_value(const float* k, const float* v, const int64_t* lengths, float* state, int H, int T, int D, int E) {
    int bh = blockIdx.x, i = threadIdx.x;
    if (i >= D * E) return;
    int d = i / E, e = i % E;
    float s = 0.0f;
    for (int t = 0; t < lengths[bh / H]; t++) s += feature(k[(bh * T + t) * D + d]) * v[(bh * T + t) * E + e];
    state[bh * D * E + i] = s;
}

__global__ void combine(const float* q, const float* v, const float* state, const float* total, const float* skip, float* out,
                        int H, int T, int D, int E, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int e = i % E, row = i / E, bh = row / T;
    float a = 0.0f, z = 0.0f;
    for (int d = 0; d < D; d++) {
        float f = feature(q[row * D + d]);
        a += f * state[(bh * D + d) * E + e];
        z += f * total[bh * D + d];
    }
    out[i] = a / z + skip[bh % H] * v[i];
}

torch::Tensor lin_attn(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), E = v.size(3), n = v.numel();
    auto total = torch::zeros({B * H, D}, q.options());
    auto state = torch::zeros({B * H, D, E}, q.options());
    auto out = torch::zeros_like(v);
    auto s = at::cuda::getCurrentCUDAStream();
    key_sum<<<dim3(B * H, D), 32, 0, s>>>(k.data_ptr<float>(), total.data_ptr<float>(), T, D);
    key_value<<<B * H, 256, 0, s>>>(k.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(), state.data_ptr<float>(), H, T, D, E);
    combine<<<(n + 127) / 128, 128, 0, s>>>(q.data_ptr<float>(), v.data_ptr<float>(), state.data_ptr<float>(), total.data_ptr<float>(), skip.data_ptr<float>(), out.data_ptr<float>(), H, T, D, E, n);
    return out;
}
"""

m = load_inline(
    name="lin_attn_three",
    cpp_sources="torch::Tensor lin_attn(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip);",
    cuda_sources=cuda_src,
    functions=["lin_attn"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.randn(heads))

    def forward(self, q, k, v, lengths):
        return m.lin_attn(q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous(), self.skip)
