# about = "The last element is not in the sum."
# section = "mismatch"
# problem = "softmax_scaled"
# causes = ["last-element-left-out"]
# says = ["last"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x, double scale);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int n, int rows, float scale) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* row = x + (long)r * n;
    float largest = -INFINITY;
    for (int i = 0; i < n; ++i) largest = fmaxf(largest, row[i] * scale);
    float sum = 0.f;
    for (int i = 0; i < n - 1; ++i) sum += expf(row[i] * scale - largest);
    for (int i = 0; i < n; ++i) y[(long)r * n + i] = expf(row[i] * scale - largest) / sum;
}

torch::Tensor softmax(torch::Tensor x, double scale) {
    auto y = torch::empty_like(x);
    int n = x.size(-1), rows = x.numel() / n;
    softmax_kernel<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, rows, (float)scale);
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.scale = head_size**-0.5

    def forward(self, scores):
        return ext.softmax(scores.contiguous(), self.scale)
