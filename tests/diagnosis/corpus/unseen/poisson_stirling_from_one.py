# about = "Stirling's term is added for counts of one too; the reference adds it above one only."
# section = "mismatch"
# problem = "poisson_rows"
# causes = ["wrong-slope", "clamp-bounds", "mask-shifted", "mask-ignored", "constant-added", "wrong-coefficient"]
# says = ["one|1|threshold|Stirling|bound|border|mask|count|condition|added"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

poisson_src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float poisson_term(float x, float t) {
    float loss = expf(x) - t * x;
    if (t >= 1.0f) {
        loss += t * logf(t) - t + 0.5f * logf(2.0f * 3.14159265358979f * t);
    }
    return loss;
}

__global__ void poisson_rows_kernel(const float* __restrict__ rate, const float* __restrict__ count,
                                    float* __restrict__ out, int cols) {
    __shared__ float sdata[64];
    const int row = blockIdx.x;
    const int tid = threadIdx.x;
    float sum = 0.0f;
    for (int c = tid; c < cols; c += blockDim.x) {
        sum += poisson_term(rate[row * cols + c], count[row * cols + c]);
    }
    sdata[tid] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[row] = sdata[0] / (float)cols;
}

torch::Tensor poisson_rows_cuda(torch::Tensor rate, torch::Tensor count) {
    TORCH_CHECK(rate.is_cuda(), "rate must be a CUDA tensor");
    const int rows = rate.size(0);
    const int cols = rate.size(1);
    auto out = torch::empty({rows}, rate.options());
    poisson_rows_kernel<<<rows, 64>>>(rate.data_ptr<float>(), count.data_ptr<float>(), out.data_ptr<float>(), cols);
    return out;
}
"""

poisson = load_inline(
    name="poisson_rows",
    cpp_sources="torch::Tensor poisson_rows_cuda(torch::Tensor rate, torch::Tensor count);",
    cuda_sources=poisson_src,
    functions=["poisson_rows_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = poisson

    def forward(self, rate, count):
        return self.op.poisson_rows_cuda(rate.contiguous(), count.contiguous())
