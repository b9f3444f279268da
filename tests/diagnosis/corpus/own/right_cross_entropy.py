# about = "A right answer."
# section = "right"
# problem = "cross_entropy"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cross_entropy",
    cpp_sources="torch::Tensor loss(torch::Tensor x, torch::Tensor target);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void loss_kernel(const float* x, const int64_t* target, float* y, int rows, int classes) {
    __shared__ float part[64];
    float total = 0.f;
    for (int r = threadIdx.x; r < rows; r += 64) {
        const float* row = x + (long)r * classes;
        float largest = -INFINITY, sum = 0.f;
        for (int c = 0; c < classes; ++c) largest = fmaxf(largest, row[c]);
        for (int c = 0; c < classes; ++c) sum += expf(row[c] - largest);
        total += logf(sum) + largest - row[target[r]];
    }
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0.f;
        for (int t = 0; t < 64; ++t) all += part[t];
        y[0] = all / rows;
    }
}

torch::Tensor loss(torch::Tensor x, torch::Tensor target) {
    auto y = torch::empty({}, x.options());
    loss_kernel<<<1, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), target.data_ptr<int64_t>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["loss"],
)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return ext.loss(logits.contiguous(), target.contiguous())
