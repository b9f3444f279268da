# about = "Each column is divided by its own sum: the sum goes over true classes."
# section = "mismatch"
# problem = "confusion_weighted"
# causes = ["wrong-axis", "statistics-over-wrong-axes", "keepdim-broadcast"]
# says = ["axis|dim|column|row|broadcast"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void count_cells(const float* scores, const int64_t* truth, const float* weight, float* cells, int n, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* s = scores + i * C;
    int best = 0;
    for (int c = 1; c < C; ++c)
        if (s[c] > s[best]) best = c;
    atomicAdd(&cells[truth[i] * C + best], weight[i]);
}

__global__ void scale_rows(const float* cells, float* out, int C) {
    int r = blockIdx.x;
    float sum = 0.5f;
    for (int c = 0; c < C; ++c) sum += cells[c * C + r];
    for (int c = threadIdx.x; c < C; c += blockDim.x) out[c * C + r] = cells[c * C + r] / sum;
}

torch::Tensor confusion(torch::Tensor scores, torch::Tensor truth, torch::Tensor weight) {
    int n = scores.size(0), C = scores.size(1);
    auto cells = torch::zeros({C, C}, weight.options());
    auto out = torch::empty_like(cells);
    count_cells<<<(n + 63) / 64, 64>>>(scores.data_ptr<float>(), truth.data_ptr<int64_t>(), weight.data_ptr<float>(), cells.data_ptr<float>(), n, C);
    scale_rows<<<C, 32>>>(cells.data_ptr<float>(), out.data_ptr<float>(), C);
    return out;
}
"""

DECLARATIONS = """
torch::Tensor confusion(torch::Tensor scores, torch::Tensor truth, torch::Tensor weight);
"""

ext = load_inline(
    name="fused_confusion",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["confusion"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, scores, truth, weight):
        return ext.confusion(scores.contiguous(), truth.contiguous(), weight.contiguous())
