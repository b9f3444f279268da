# about = "Negative elements are not lifted to the lower bound before the power, so that it is undefined."
# section = "mismatch"
# problem = "gem_pool"
# causes = ["clamp-missing", "clamp-bounds", "overflow-to-nan", "nan-output", "non-finite-output", "operator-missing"]
# says = ["clamp|bound|negative|pow|nan|undefined|min|not finite|non-finite"]
# stage = ["verify", "run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void gem_kernel(const float* x, float* y, int area, float power) {
    extern __shared__ float sums[];
    const float* plane = x + (size_t)blockIdx.x * area;
    float acc = 0.0f;
    for (int i = threadIdx.x; i < area; i += blockDim.x) {
        acc += powf(plane[i], power);
    }
    sums[threadIdx.x] = acc;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        y[blockIdx.x] = powf(sums[0] / area, 1.0f / power);
    }
}

torch::Tensor gem(torch::Tensor x, double power, double low) {
    auto y = torch::empty({x.size(0), x.size(1)}, x.options());
    const int threads = 64;
    gem_kernel<<<x.size(0) * x.size(1), threads, threads * sizeof(float)>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(2) * x.size(3), (float)power);
    return y;
}
"""

gem = load_inline(
    name="gem",
    cpp_sources="torch::Tensor gem(torch::Tensor x, double power, double low);",
    cuda_sources=source,
    functions=["gem"],
)


class ModelNew(nn.Module):
    def __init__(self, power, low):
        super().__init__()
        self.power = power
        self.low = low

    def forward(self, x):
        return gem.gem(x.contiguous(), self.power, self.low)
