# about = "A right answer: both products in one loop from the last column to the first."
# section = "right"
# problem = "swiglu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void backwards(const float* x, const float* gate, const float* up, float* y, int rows, int width, int hidden) {
    extern __shared__ float row[];
    for (int k = threadIdx.x; k < width; k += blockDim.x) row[k] = x[blockIdx.x * width + k];
    __syncthreads();
    for (int h = threadIdx.x; h < hidden; h += blockDim.x) {
        float a = 0.f, b = 0.f;
        for (int k = width - 1; k >= 0; --k) {
            a = fmaf(row[k], gate[h * width + k], a);
            b = fmaf(row[k], up[h * width + k], b);
        }
        y[blockIdx.x * hidden + h] = b * a * (1.f / (1.f + expf(-a)));
    }
}

torch::Tensor backwards_cuda(torch::Tensor x, torch::Tensor gate, torch::Tensor up) {
    int rows = x.size(0), width = x.size(1), hidden = gate.size(0);
    auto y = torch::empty({rows, hidden}, x.options());
    backwards<<<rows, 32, width * sizeof(float)>>>(x.data_ptr<float>(), gate.data_ptr<float>(), up.data_ptr<float>(),
                                                 y.data_ptr<float>(), rows, width, hidden);
    return y;
}
"""

ops = load_inline(
    name="backwards",
    cpp_sources="torch::Tensor backwards_cuda(torch::Tensor x, torch::Tensor gate, torch::Tensor up);",
    cuda_sources=source,
    functions=["backwards_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return ops.backwards_cuda(x.contiguous(), self.gate.weight, self.up.weight)
