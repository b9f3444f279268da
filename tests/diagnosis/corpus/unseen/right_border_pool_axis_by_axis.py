# about = "Sums along one axis at a time, through two scratch tensors; the counts are divided out last."
# section = "right"
# problem = "avg_pool3d_border"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// tensor seen as [outer, length, inner]; sums windows along the middle
__global__ void sum_axis(const float* __restrict__ src, float* __restrict__ dst, int outer, int length, int result,
                         int inner, int window, int stride, int padding) {
    const int total = outer * result * inner;
    for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < total; id += blockDim.x * gridDim.x) {
        const int i = id % inner, o = id / inner % result, a = id / (inner * result);
        const int from = o * stride - padding;
        const int low = from < 0 ? 0 : from, high = from + window > length ? length : from + window;
        float s = 0.f;
        for (int k = high - 1; k >= low; --k) s += src[(a * length + k) * inner + i];
        dst[id] = s * __frcp_rn((float)(high - low));
    }
}

static int extent(int length, int window, int stride, int padding) {
    int n = (length + 2 * padding - window + stride - 1) / stride + 1;
    return (n - 1) * stride >= length + padding ? n - 1 : n;
}

torch::Tensor border_pool(torch::Tensor x, std::vector<int64_t> window, std::vector<int64_t> stride,
                          std::vector<int64_t> padding) {
    std::vector<int64_t> shape = x.sizes().vec();
    auto now = x;
    auto stream = at::cuda::getCurrentCUDAStream();
    for (int axis = 4; axis >= 2; --axis) {
        const int k = axis - 2, length = shape[axis];
        shape[axis] = extent(length, window[k], stride[k], padding[k]);
        auto next = torch::empty(shape, x.options());
        int inner = 1, outer = 1;
        for (int d = 0; d < axis; ++d) outer *= shape[d];
        for (int d = axis + 1; d < 5; ++d) inner *= shape[d];
        sum_axis<<<12, 128, 0, stream>>>(now.data_ptr<float>(), next.data_ptr<float>(), outer, length, shape[axis],
                                         inner, window[k], stride[k], padding[k]);
        now = next;
    }
    return now;
}
"""

ext = load_inline(
    name="border_pool",
    cpp_sources="torch::Tensor border_pool(torch::Tensor x, std::vector<int64_t> window, std::vector<int64_t> stride, std::vector<int64_t> padding);",
    cuda_sources=cuda_src,
    functions=["border_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, window, stride, padding):
        super().__init__()
        self.window, self.stride, self.padding = list(window), list(stride), list(padding)

    def forward(self, x):
        return ext.border_pool(x.contiguous(), self.window, self.stride, self.padding)
