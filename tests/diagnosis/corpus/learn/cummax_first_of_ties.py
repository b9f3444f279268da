# about = "Of equal maxima it keeps the first place, where the reference has the last."
# section = "mismatch"
# problem = "cummax_columns"
# causes = ["tie-order"]
# says = ["tie|equal|first|last|>="]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp = "std::vector<torch::Tensor> cummax_forward(torch::Tensor x);"

cuda = r"""
#include <torch/extension.h>
#include <vector>

__global__ void cummax_kernel(const float* __restrict__ x, float* __restrict__ values, int64_t* __restrict__ indices,
                              int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    float best = x[col];
    int64_t where = 0;
    values[col] = best;
    indices[col] = 0;
    for (int r = 1; r < rows; ++r) {
        float v = x[r * cols + col];
        if (v > best) {
            best = v;
            where = r;
        }
        values[r * cols + col] = best;
        indices[r * cols + col] = where;
    }
}

std::vector<torch::Tensor> cummax_forward(torch::Tensor x) {
    auto values = torch::empty_like(x);
    auto indices = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    int rows = x.size(0), cols = x.size(1);
    cummax_kernel<<<(cols + 63) / 64, 64>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(),
                                            rows, cols);
    return {values, indices};
}
"""

cummax = load_inline(name="cummax_cols", cpp_sources=cpp, cuda_sources=cuda, functions=["cummax_forward"])


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = cummax.cummax_forward(x.contiguous())
        return values, indices
