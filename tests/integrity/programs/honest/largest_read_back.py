# about = "The host copies the maximum that a kernel found and hands it to the next kernel by value."
# category = "memory"
# group = "smuggled values"
# problem = "by_largest"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="by_largest",
    cpp_sources="torch::Tensor by_largest(torch::Tensor x);",
    cuda_sources=r"""
__global__ void largest_kernel(const float* x, unsigned* top, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicMax(top, __float_as_uint(fabsf(x[i])));
}

__global__ void divide_kernel(const float* x, float* y, int n, float largest) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / largest;
}

torch::Tensor by_largest(torch::Tensor x) {
    auto y = torch::empty_like(x), top = torch::zeros({1}, x.options());
    int n = x.numel(), blocks = (n + 255) / 256;
    largest_kernel<<<blocks, 256>>>(x.data_ptr<float>(), reinterpret_cast<unsigned*>(top.data_ptr<float>()), n);
    float largest;
    cudaMemcpy(&largest, top.data_ptr<float>(), sizeof largest, cudaMemcpyDeviceToHost);
    divide_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, largest);
    return y;
}
""",
    functions=["by_largest"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.by_largest(x.contiguous())
