# about = "The scale is the root of heads times size, and the weights are not divided by their sum."
# section = "mismatch"
# problem = "attention_grouped"
# faults = [{causes = ["wrong-divisor", "scale-missing", "scale-doubled"], says = ["scal|root|sqrt|divi|factor"]}, {causes = ["operator-missing", "wrong-divisor", "scale-missing", "sum-for-mean"], says = ["normali|sum|denomin|divi|softmax"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

program = r"""
__global__ void grouped(const float* q, const float* k, const float* v, float* y, int rows, int heads, int shared_by,
                        int n, int m, int d) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int kv = row / n / shared_by;
    const float* keys = k + kv * m * d;
    const float* values = v + kv * m * d;
    float scale = 1.0f / sqrtf((float)(heads * d));
    float top = -3.0e38f;
    for (int j = 0; j < m; ++j) {
        float s = 0.0f;
        for (int i = 0; i < d; ++i) s += q[row * d + i] * keys[j * d + i];
        top = fmaxf(top, s * scale);
    }
    float sums[32];
    for (int i = 0; i < d; ++i) sums[i] = 0.0f;
    for (int j = 0; j < m; ++j) {
        float s = 0.0f;
        for (int i = 0; i < d; ++i) s += q[row * d + i] * keys[j * d + i];
        float weight = expf(s * scale - top);
        for (int i = 0; i < d; ++i) sums[i] += weight * values[j * d + i];
    }
    for (int i = 0; i < d; ++i) y[row * d + i] = sums[i];
}

torch::Tensor grouped_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t shared_by) {
    TORCH_CHECK(q.size(3) <= 32);
    auto y = torch::empty_like(q);
    int d = q.size(3), rows = q.numel() / d;
    grouped<<<(rows + 95) / 96, 96>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>(),
        rows, q.size(1), shared_by, q.size(2), k.size(2), d);
    return y;
}
"""

grouped = load_inline(
    name="grouped_attention",
    cpp_sources="torch::Tensor grouped_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t shared_by);",
    cuda_sources=program,
    functions=["grouped_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def forward(self, q, k, v):
        return grouped.grouped_attention(q.contiguous(), k.contiguous(), v.contiguous(), self.shared)
