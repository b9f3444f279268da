# about = "A right answer: the sigmoid by the exponential of minus the absolute value."
# section = "right"
# problem = "glu_channels"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void glu_rows(const float* x, float* y, int n, int block) {
    // block: elements of one half of a sample
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int at = i / block * 2 * block + i % block;
        const float gate = x[at + block];
        const float e = expf(-fabsf(gate));
        const float s = gate < 0.f ? e / (1.f + e) : 1.f / (1.f + e);
        y[i] = s * x[at];
    }
}

torch::Tensor glu_rows_cuda(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(1) / 2, x.size(2)}, x.options());
    glu_rows<<<3, 96>>>(x.data_ptr<float>(), y.data_ptr<float>(), y.numel(), x.size(1) / 2 * x.size(2));
    return y;
}
"""

ext = load_inline(
    name="glu_rows",
    cpp_sources="torch::Tensor glu_rows_cuda(torch::Tensor x);",
    cuda_sources=source,
    functions=["glu_rows_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.glu_rows_cuda(x.contiguous())
