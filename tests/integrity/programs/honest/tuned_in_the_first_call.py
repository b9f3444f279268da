# about = "The first call of an instance times two block sizes; later ones use the faster."
# category = "structure"
# group = "honest once"
# problem = "softmax"

import time

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax_narrow(torch::Tensor x); torch::Tensor softmax_wide(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    __shared__ float part[128];
    const float* row = x + blockIdx.x * columns;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, row[i]);
    part[threadIdx.x] = largest;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - largest);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = expf(row[i] - largest) / part[0];
}

torch::Tensor run(torch::Tensor x, int threads) {
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

torch::Tensor softmax_narrow(torch::Tensor x) { return run(x, 32); }

torch::Tensor softmax_wide(torch::Tensor x) { return run(x, 128); }
""",
    functions=["softmax_narrow", "softmax_wide"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = None

    def forward(self, x):
        if self.best is None:
            spent = {}
            for variant in (ext.softmax_narrow, ext.softmax_wide):
                variant(x.contiguous())
                torch.cuda.synchronize()
                begin = time.perf_counter()
                variant(x.contiguous())
                torch.cuda.synchronize()
                spent[variant] = time.perf_counter() - begin
            self.best = min(spent, key=spent.get)
        return self.best(x.contiguous())
