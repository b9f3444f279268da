# about = "Divides the squares of a segment by its number of rows less one."
# section = "mismatch"
# problem = "segment_norm"
# causes = ["unbiased-variance", "wrong-divisor"]
# says = ["unbiased|n - 1|n-1|less one|Bessel|divis|divid|count|one fewer"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void sums(const float* x, const int64_t* seg, float* total, int* count, int rows, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += gridDim.x * blockDim.x) {
        int s = seg[i / width];
        atomicAdd(&total[s * width + i % width], x[i]);
        if (i % width == 0) atomicAdd(&count[s], 1);
    }
}
__global__ void to_mean(float* total, const int* count, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) total[i] /= max(count[i / width], 1);
}
__global__ void squares(const float* x, const int64_t* seg, const float* mean, float* sq, int rows, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += gridDim.x * blockDim.x) {
        int at = seg[i / width] * width + i % width;
        float d = x[i] - mean[at];
        atomicAdd(sq + at, d * d);
    }
}
__global__ void apply(const float* x, const int64_t* seg, const float* mean, const float* sq, const int* count, float* y, float eps, int rows, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * width; i += gridDim.x * blockDim.x) {
        int s = seg[i / width], at = s * width + i % width;
        float var = sq[at] / max(count[s] - 1, 1);
        y[i] = (x[i] - mean[at]) * rsqrtf(var + eps);
    }
}

std::vector<torch::Tensor> by_segment(torch::Tensor x, torch::Tensor seg, int64_t segments, double eps) {
    int rows = x.size(0), width = x.size(1), n = segments * width;
    auto y = torch::empty_like(x);
    auto mean = torch::zeros({segments, width}, x.options());
    auto sq = torch::zeros_like(mean);
    auto count = torch::zeros({segments}, x.options().dtype(torch::kInt32));
    auto st = at::cuda::getCurrentCUDAStream();
    const int64_t* s = seg.data_ptr<int64_t>();
    sums<<<3, 128, 0, st>>>(x.data_ptr<float>(), s, mean.data_ptr<float>(), count.data_ptr<int>(), rows, width);
    to_mean<<<(n + 127) / 128, 128, 0, st>>>(mean.data_ptr<float>(), count.data_ptr<int>(), n, width);
    squares<<<3, 128, 0, st>>>(x.data_ptr<float>(), s, mean.data_ptr<float>(), sq.data_ptr<float>(), rows, width);
    apply<<<3, 128, 0, st>>>(x.data_ptr<float>(), s, mean.data_ptr<float>(), sq.data_ptr<float>(), count.data_ptr<int>(),
                             y.data_ptr<float>(), (float)eps, rows, width);
    return {y, mean};
}
"""
ops = load_inline("by_segment", cpp_sources="std::vector<torch::Tensor> by_segment(torch::Tensor x, torch::Tensor seg, int64_t segments, double eps);",
                  cuda_sources=SRC, functions=["by_segment"])


class ModelNew(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments, self.eps = segments, eps

    def forward(self, x, segment):
        return tuple(ops.by_segment(x.contiguous(), segment.contiguous(), self.segments, self.eps))
