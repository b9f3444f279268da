# about = "The threads of one block add to a variable of the device by +=."
# category = "races"
# group = "order"
# problem = "squared_error"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="squared_error",
    cpp_sources="torch::Tensor squared_error(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
__device__ float total;

__global__ void clear_kernel() { total = 0.f; }

__global__ void add_kernel(const float* a, const float* b, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += (a[i] - b[i]) * (a[i] - b[i]);
    total += sum;
}

__global__ void store_kernel(float* y, int n) { y[0] = total / n; }

torch::Tensor squared_error(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty({}, a.options());
    clear_kernel<<<1, 1>>>();
    add_kernel<<<1, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), a.numel());
    store_kernel<<<1, 1>>>(y.data_ptr<float>(), a.numel());
    return y;
}
""",
    functions=["squared_error"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.squared_error(a.contiguous(), b.contiguous())
