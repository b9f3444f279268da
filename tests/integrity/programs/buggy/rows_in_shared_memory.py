# about = "Rows and their exponentials in shared memory: 64 KB of it for real rows, which nobody has asked for."
# category = "bounds"
# group = "size"
# problem = "softmax_long"
# status = ["runtime_error", "incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    extern __shared__ float held[];
    float* powers = held + columns;
    __shared__ float part[128];
    const float* row = x + static_cast<size_t>(blockIdx.x) * columns;
    float largest = -INFINITY, sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, held[i] = row[i]);
    part[threadIdx.x] = largest;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += powers[i] = expf(held[i] - largest);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[static_cast<size_t>(blockIdx.x) * columns + i] = powers[i] / part[0];
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int bytes = 2 * x.size(1) * sizeof(float);
    softmax_kernel<<<x.size(0), 128, bytes>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
