# about = "The maximum starts at 0, which shows in rows of negative numbers alone."
# category = "values"
# problem = "row_stats"
# status = ["incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_stats",
    cpp_sources="std::vector<torch::Tensor> row_stats(torch::Tensor x);",
    cuda_sources=r"""
__global__ void row_stats_kernel(const float* x, float* mean, float* largest, int columns) {
    float sum = 0.f, top = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float v = x[blockIdx.x * columns + i];
        sum += v;
        top = fmaxf(top, v);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
        top = fmaxf(top, __shfl_down_sync(0xffffffff, top, offset));
    }
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = sum / columns;
        largest[blockIdx.x] = top;
    }
}

std::vector<torch::Tensor> row_stats(torch::Tensor x) {
    auto mean = torch::empty({x.size(0)}, x.options()), largest = torch::empty({x.size(0)}, x.options());
    row_stats_kernel<<<x.size(0), 32>>>(
        x.data_ptr<float>(), mean.data_ptr<float>(), largest.data_ptr<float>(), x.size(1));
    return {mean, largest};
}
""",
    functions=["row_stats"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        mean, largest = ext.row_stats(x.contiguous())
        return mean, largest
