# about = "Returns float totals, where the reference keeps the integers."
# section = "run"
# problem = "cumsum_counts"
# causes = ["wrong-dtype"]
# says = ["int64|long|float32|dtype"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

template <typename T>
__global__ void totals_kernel(const T* __restrict__ counts, float* __restrict__ totals, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float acc = 0;
    for (int i = 0; i < n; ++i) {
        acc += static_cast<float>(counts[row * n + i]);
        totals[row * n + i] = acc;
    }
}

torch::Tensor totals(torch::Tensor counts) {
    auto out = torch::empty(counts.sizes(), counts.options().dtype(torch::kFloat32));
    int rows = counts.size(0), n = counts.size(1);
    totals_kernel<int64_t><<<(rows + 31) / 32, 32>>>(counts.data_ptr<int64_t>(), out.data_ptr<float>(), rows, n);
    return out;
}
"""

totals_ext = load_inline(
    name="totals_ext",
    cpp_sources="torch::Tensor totals(torch::Tensor counts);",
    cuda_sources=src,
    functions=["totals"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, counts):
        return totals_ext.totals(counts.contiguous())
