# about = "The class of the target is counted among the others: each row gains its squared margin."
# section = "mismatch"
# problem = "multi_margin"
# causes = ["base-ignored", "ignored-class-counted", "mask-ignored", "constant-added"]
# says = ["target|own|class|mask|count|includ|added|constant|itself"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void multi_margin_kernel(const float* __restrict__ scores, const int64_t* __restrict__ target,
                                    const float* __restrict__ weight, float* __restrict__ out,
                                    int rows, int classes, float margin) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* s = scores + row * classes;
    int y = static_cast<int>(target[row]);
    float base = margin - s[y];
    float w = weight[y];
    float total = 0.0f;
    for (int c = 0; c < classes; ++c) {
        float z = base + s[c];
        if (z > 0.0f) total += w * z * z;
    }
    out[row] = total / classes;
}

torch::Tensor multi_margin(torch::Tensor scores, torch::Tensor target, torch::Tensor weight, double margin) {
    int rows = scores.size(0), classes = scores.size(1);
    auto out = torch::empty({rows}, scores.options());
    const int threads = 32;
    const int blocks = (rows + threads - 1) / threads;
    multi_margin_kernel<<<blocks, threads>>>(
        scores.data_ptr<float>(),
        target.data_ptr<int64_t>(),
        weight.data_ptr<float>(),
        out.data_ptr<float>(),
        rows, classes, (float)margin);
    return out;
}
"""

margin_ext = load_inline(
    name="multi_margin_ext",
    cpp_sources="torch::Tensor multi_margin(torch::Tensor scores, torch::Tensor target, torch::Tensor weight, double margin);",
    cuda_sources=source,
    functions=["multi_margin"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, margin):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.2)
        self.margin = margin

    def forward(self, scores, target):
        return margin_ext.multi_margin(scores.contiguous(), target.contiguous(), self.weight, self.margin)
