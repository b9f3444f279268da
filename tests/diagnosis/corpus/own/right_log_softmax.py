# about = "A right answer."
# section = "right"
# problem = "log_softmax"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="log_softmax",
    cpp_sources="torch::Tensor log_softmax(torch::Tensor x);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void log_softmax_kernel(const float* x, float* y, int channels, int spatial, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long begin = (long)(i / spatial) * channels * spatial + i % spatial;
    float largest = -INFINITY;
    for (int c = 0; c < channels; ++c) largest = fmaxf(largest, x[begin + c * spatial]);
    float sum = 0.f;
    for (int c = 0; c < channels; ++c) sum += expf(x[begin + c * spatial] - largest);
    float whole = logf(sum) + largest;
    for (int c = 0; c < channels; ++c) y[begin + c * spatial] = x[begin + c * spatial] - whole;
}

torch::Tensor log_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int spatial = x.size(2) * x.size(3), n = x.size(0) * spatial;
    log_softmax_kernel<<<(n + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), spatial, n);
    return y;
}
""",
    functions=["log_softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.log_softmax(x.contiguous())
