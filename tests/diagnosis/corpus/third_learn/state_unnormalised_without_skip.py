# about = "The product with the state is not divided by the normaliser, and the weighted values are not added."
# section = "mismatch"
# problem = "linear_attention_padded"
# faults = [{causes = ["operator-missing", "wrong-divisor", "scale-missing", "sum-for-mean"], says = ["divi|normal|denominator|sum|scal|factor|missing|left out"]}, {causes = ["residual-missing", "operator-missing", "bias-missing", "weight-ignored", "affine-ignored"], says = ["residual|skip|add|missing|left out|weight|parameter|bias"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void phi_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] > 0 ? x[i] : expf(x[i]) - 1) + 1;
}

__global__ void kv_kernel(const float* k, const float* v, const int64_t* lengths, float* kv, int H, int T, int D, int E) {
    int bh = blockIdx.x;
    for (int i = threadIdx.x; i < D * E; i += blockDim.x) {
        float s = 0;
        for (int t = 0; t < lengths[bh / H]; t++) s += k[(bh * T + t) * D + i / E] * v[(bh * T + t) * E + i % E];
        kv[bh * D * E + i] = s;
    }
}

__global__ void out_kernel(const float* q, const float* kv, float* out, int T, int D, int E) {
    int t = blockIdx.x, bh = blockIdx.y, e = threadIdx.x;
    float s = 0;
    for (int d = 0; d < D; d++) s += q[(bh * T + t) * D + d] * kv[(bh * D + d) * E + e];
    out[(bh * T + t) * E + e] = s;
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), E = v.size(3), n = q.numel();
    auto fq = torch::empty_like(q), fk = torch::empty_like(k), out = torch::empty_like(v);
    auto kv = torch::empty({B, H, D, E}, q.options());
    cudaStream_t st = at::cuda::getCurrentCUDAStream();
    phi_kernel<<<(n + 255) / 256, 256, 0, st>>>(q.data_ptr<float>(), fq.data_ptr<float>(), n);
    phi_kernel<<<(n + 255) / 256, 256, 0, st>>>(k.data_ptr<float>(), fk.data_ptr<float>(), n);
    kv_kernel<<<B * H, 64, 0, st>>>(fk.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(), kv.data_ptr<float>(), H, T, D, E);
    out_kernel<<<dim3(T, B * H), E, 0, st>>>(fq.data_ptr<float>(), kv.data_ptr<float>(), out.data_ptr<float>(), T, D, E);
    return out;
}
"""
ops = load_inline(
    name="linear_attention_simple",
    cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths);",
    cuda_sources=source,
    functions=["attention"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.randn(heads))

    def forward(self, q, k, v, lengths):
        return ops.attention(q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous())
