# about = "2048 threads in a block."
# category = "bounds"
# problem = "squared_error"
# status = ["runtime_error"]
# finding = 'illegal-launch'
# cuda.status = ["runtime_error", "incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="squared_error",
    cpp_sources="torch::Tensor squared_error(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
__global__ void squared_error_kernel(const float* a, const float* b, float* y, int n) {
    __shared__ float part[256];
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0] / n);
}

torch::Tensor squared_error(torch::Tensor a, torch::Tensor b) {
    auto y = torch::zeros({}, a.options());
    squared_error_kernel<<<4, 2048>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), a.numel());
    return y;
}
""",
    functions=["squared_error"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.squared_error(a.contiguous(), b.contiguous())
