# about = "Mean and variance are those of all rows together and not of the row's own segment."
# section = "mismatch"
# problem = "segment_norm"
# causes = ["segments-ignored", "statistics-over-wrong-axes", "statistics-over-batch"]
# says = ["segment|all rows|whole|over all|group|dim|axes|batch|axis"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void norm_kernel(const float* x, float* y, float* mean_out, float eps, int rows, int width, int segments) {
    __shared__ float buffer[128];
    int c = blockIdx.x, tid = threadIdx.x;
    float sum = 0.f;
    for (int r = tid; r < rows; r += blockDim.x) sum += x[r * width + c];
    buffer[tid] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) buffer[tid] += buffer[tid + s];
        __syncthreads();
    }
    float mean = buffer[0] / rows;
    __syncthreads();
    float sq = 0.f;
    for (int r = tid; r < rows; r += blockDim.x) {
        float d = x[r * width + c] - mean;
        sq += d * d;
    }
    buffer[tid] = sq;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) buffer[tid] += buffer[tid + s];
        __syncthreads();
    }
    float inv = rsqrtf(buffer[0] / rows + eps);
    for (int r = tid; r < rows; r += blockDim.x) y[r * width + c] = (x[r * width + c] - mean) * inv;
    if (tid < segments) mean_out[tid * width + c] = mean;
}

std::vector<torch::Tensor> segment_norm(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps) {
    auto y = torch::empty_like(x);
    auto mean = torch::empty({segments, x.size(1)}, x.options());
    norm_kernel<<<x.size(1), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), mean.data_ptr<float>(), (float)eps,
                                    x.size(0), x.size(1), segments);
    return {y, mean};
}
"""

seg = load_inline(
    name="segment_norm_all",
    cpp_sources="std::vector<torch::Tensor> segment_norm(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps);",
    cuda_sources=cuda_source,
    functions=["segment_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments = segments
        self.eps = eps

    def forward(self, x, segment):
        y, mean = seg.segment_norm(x.contiguous(), segment, self.segments, self.eps)
        return y, mean
