# about = "128 threads along z, of which a block may have 64."
# category = "bounds"
# group = "launch"
# problem = "softmax"
# status = ["runtime_error", "incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    __shared__ float part[128];
    const float* row = x + blockIdx.x * columns;
    float largest = -INFINITY;
    for (int i = threadIdx.z; i < columns; i += blockDim.z) largest = fmaxf(largest, row[i]);
    part[threadIdx.z] = largest;
    __syncthreads();
    for (int half = blockDim.z / 2; half > 0; half /= 2) {
        if (threadIdx.z < half) part[threadIdx.z] = fmaxf(part[threadIdx.z], part[threadIdx.z + half]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.f;
    for (int i = threadIdx.z; i < columns; i += blockDim.z) sum += expf(row[i] - largest);
    part[threadIdx.z] = sum;
    __syncthreads();
    for (int half = blockDim.z / 2; half > 0; half /= 2) {
        if (threadIdx.z < half) part[threadIdx.z] += part[threadIdx.z + half];
        __syncthreads();
    }
    for (int i = threadIdx.z; i < columns; i += blockDim.z)
        y[blockIdx.x * columns + i] = expf(row[i] - largest) / part[0];
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), dim3(1, 1, 128)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
