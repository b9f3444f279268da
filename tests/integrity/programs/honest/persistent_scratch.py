# about = "A scratch buffer stays from call to call; outputs are fresh."
# category = "memory"
# problem = "squared_error"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="squared_error",
    cpp_sources="torch::Tensor squared_error(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
__global__ void partial_kernel(const float* a, const float* b, float* partial, int n) {
    __shared__ float part[128];
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = part[0];
}

__global__ void final_kernel(const float* partial, float* y, int count, int n) {
    float sum = 0.f;
    for (int i = 0; i < count; ++i) sum += partial[i];
    y[0] = sum / n;
}

torch::Tensor squared_error(torch::Tensor a, torch::Tensor b) {
    static torch::Tensor scratch;
    if (!scratch.defined()) scratch = torch::empty({8}, a.options());
    auto y = torch::empty({}, a.options());
    int n = a.numel();
    partial_kernel<<<8, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), scratch.data_ptr<float>(), n);
    final_kernel<<<1, 1>>>(scratch.data_ptr<float>(), y.data_ptr<float>(), 8, n);
    return y;
}
""",
    functions=["squared_error"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.squared_error(a.contiguous(), b.contiguous())
