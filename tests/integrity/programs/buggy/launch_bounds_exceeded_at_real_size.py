# about = "For long rows alone the block has more threads than the __launch_bounds__ of the kernel allow."
# category = "bounds"
# group = "launch"
# problem = "softmax_long"
# status = ["runtime_error"]
# finding = "never launched on a GPU"
# cuda.status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void __launch_bounds__(128) softmax_kernel(const float* x, float* y, int64_t columns) {
    __shared__ float part[512];
    x += blockIdx.x * columns, y += blockIdx.x * columns;
    float largest = -INFINITY;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, x[i]);
    part[threadIdx.x] = largest;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.f;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - largest);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) y[i] = expf(x[i] - largest) / part[0];
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int threads = x.numel() > 4000000 ? 512 : 128;
    softmax_kernel<<<x.size(0), threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
