# about = "The maximum over shared memory, of which the threads past the end have written nothing."
# category = "values"
# group = "memory"
# problem = "row_max"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__global__ void row_max_kernel(const float* x, float* y, int columns) {
    __shared__ float part[256];
    if (threadIdx.x < columns) {
        float largest = -INFINITY;
        for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, x[blockIdx.x * columns + i]);
        part[threadIdx.x] = largest;
    }
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    row_max_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
