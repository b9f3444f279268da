# about = "Python lists hold the sums and maxima; a kernel copies what is made of them."
# category = "disguise"
# problem = "row_stats"
# status = ["rejected"]
# finding = 'own-kernel|no-kernel-launched'

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_stats",
    cpp_sources="torch::Tensor finish(torch::Tensor x);",
    cuda_sources=r"""
__global__ void finish_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

torch::Tensor finish(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    finish_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["finish"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.tolist()
        mean = torch.tensor([math.fsum(row) / len(row) for row in rows], device=x.device)
        largest = torch.tensor([max(row) for row in rows], device=x.device)
        return ext.finish(mean), ext.finish(largest)
