# about = "A counter of zeros stays from call to call; atomicInc takes it back to zero in the last block."
# category = "memory"
# group = "memory"
# problem = "squared_error"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="squared_error",
    cpp_sources="torch::Tensor squared_error(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
__global__ void squared_error_kernel(const float* a, const float* b, float* partial, unsigned* counter, float* y, int n) {
    __shared__ float part[128];
    __shared__ bool last;
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = part[0];
        __threadfence();
        last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    __threadfence();
    const volatile float* parts = partial;
    float total = 0.f;
    for (int i = 0; i < gridDim.x; ++i) total += parts[i];
    y[0] = total / n;
}

torch::Tensor squared_error(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty({}, a.options()), partial = torch::empty({8}, a.options());
    static torch::Tensor counter;
    if (!counter.defined()) counter = torch::zeros({1}, a.options().dtype(torch::kInt32));
    squared_error_kernel<<<8, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), partial.data_ptr<float>(),
        reinterpret_cast<unsigned*>(counter.data_ptr<int>()), y.data_ptr<float>(), a.numel());
    return y;
}
""",
    functions=["squared_error"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.squared_error(a.contiguous(), b.contiguous())
