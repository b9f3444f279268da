# about = "A thread per element looks for its segment by halving and adds up anew."
# section = "right"
# problem = "segment_running_mean"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void running_mean(const float* __restrict__ x, const long* __restrict__ offsets, float* __restrict__ y,
                             int rows, int width, int segments) {
    for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < rows * width; id += gridDim.x * blockDim.x) {
        int row = id / width, f = id - row * width;
        int low = 0, high = segments - 1;
        while (low < high) {
            int middle = (low + high + 1) >> 1;
            if (offsets[middle] <= row) low = middle;
            else high = middle - 1;
        }
        int begin = (int)offsets[low];
        float even = 0.f, odd = 0.f;
        int i = row;
        for (; i > begin; i -= 2) {
            even += x[i * width + f];
            odd += x[(i - 1) * width + f];
        }
        if (i == begin) even += x[i * width + f];
        y[id] = __fdividef(even + odd, (float)(row - begin + 1));
    }
}

torch::Tensor segment_mean(torch::Tensor x, torch::Tensor offsets) {
    auto y = torch::empty_like(x);
    running_mean<<<5, 96, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), reinterpret_cast<const long*>(offsets.data_ptr<int64_t>()), y.data_ptr<float>(),
        x.size(0), x.size(1), offsets.numel() - 1);
    return y;
}
"""

segment_ops = load_inline(
    name="segment_search",
    cpp_sources="torch::Tensor segment_mean(torch::Tensor x, torch::Tensor offsets);",
    cuda_sources=cuda,
    functions=["segment_mean"],
)


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        return segment_ops.segment_mean(x.contiguous(), offsets.contiguous())
