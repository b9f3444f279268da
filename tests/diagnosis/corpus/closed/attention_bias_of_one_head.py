# about = "Every head adds the bias of the first head."
# section = "mismatch"
# problem = "attention_bias"
# causes = ["bias-wrong-index", "wrong-channel", "index-ignored", "keepdim-broadcast"]
# says = ["bias|head|dim|broadcast"]
# stage = ["verify"]

import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <cuda_runtime.h>

__global__ void logits_kernel(const float* q, const float* k, const float* bias, float* logits,
                              int rows_q, int rows_k, int dim, float scale) {
    int z = blockIdx.z;
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= rows_k || y >= rows_q) return;
    const float* a = q + (z * rows_q + y) * dim;
    const float* b = k + (z * rows_k + x) * dim;
    float dot = 0.f;
    for (int i = 0; i < dim; i += 4) {
        float4 p = *reinterpret_cast<const float4*>(a + i);
        float4 r = *reinterpret_cast<const float4*>(b + i);
        dot += p.x * r.x + p.y * r.y + p.z * r.z + p.w * r.w;
    }
    logits[(z * rows_q + y) * rows_k + x] = dot * scale + bias[y * rows_k + x];
}

__global__ void softmax_rows(float* logits, int rows_k) {
    float* row = logits + (size_t)blockIdx.x * rows_k;
    __shared__ float top, total;
    if (threadIdx.x == 0) {
        top = row[0];
        for (int j = 1; j < rows_k; ++j) top = fmaxf(top, row[j]);
        total = 0.f;
        for (int j = 0; j < rows_k; ++j) total += expf(row[j] - top);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < rows_k; j += blockDim.x) row[j] = expf(row[j] - top) / total;
}

__global__ void weighted_values(const float* p, const float* v, float* o, int rows_q, int rows_k, int dim) {
    int z = blockIdx.y, y = blockIdx.x, c = threadIdx.x;
    float acc = 0.f;
    for (int j = 0; j < rows_k; ++j) acc += p[(z * rows_q + y) * rows_k + j] * v[(z * rows_k + j) * dim + c];
    o[(z * rows_q + y) * dim + c] = acc;
}

torch::Tensor attention_with_bias(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias, double scale) {
    int z = q.size(0) * q.size(1), n = q.size(2), d = q.size(3), m = k.size(2);
    TORCH_CHECK(d % 4 == 0, "vectors of four");
    auto p = torch::empty({z, n, m}, q.options());
    auto o = torch::empty_like(q);
    logits_kernel<<<dim3((m + 7) / 8, (n + 7) / 8, z), dim3(8, 8)>>>(q.data_ptr<float>(), k.data_ptr<float>(),
        bias.data_ptr<float>(), p.data_ptr<float>(), n, m, d, (float)scale);
    softmax_rows<<<z * n, 32>>>(p.data_ptr<float>(), m);
    weighted_values<<<dim3(n, z), d>>>(p.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), n, m, d);
    return o;
}
"""

m = load_inline("attention_with_bias_ext", "torch::Tensor attention_with_bias(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias, double scale);",
                src, functions=["attention_with_bias"])


class ModelNew(nn.Module):
    def __init__(self, heads, queries, keys):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads, queries, keys))

    def forward(self, q, k, v):
        return m.attention_with_bias(q, k, v, self.bias.contiguous(), 1.0 / math.sqrt(q.size(-1)))
