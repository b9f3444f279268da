# about = "The last thread of a block gathers from global memory what the others have stored, without a barrier."
# category = "races"
# group = "order"
# problem = "row_variance"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_variance",
    cpp_sources="torch::Tensor row_variance(torch::Tensor x);",
    cuda_sources=r"""
__global__ void row_variance_kernel(const float* x, float* y, float* scratch, int columns) {
    x += blockIdx.x * columns, scratch += blockIdx.x * 2 * blockDim.x;
    int count = threadIdx.x < columns ? (columns - 1 - threadIdx.x) / blockDim.x + 1 : 0;
    float mean = 0.f, squares = 0.f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) mean += x[i] / count;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    scratch[2 * threadIdx.x] = mean, scratch[2 * threadIdx.x + 1] = squares;
    if (threadIdx.x != blockDim.x - 1) return;
    float total = 0.f, spread = 0.f;
    for (int t = 0; t < blockDim.x && t < columns; ++t)
        total += scratch[2 * t] * ((columns - 1 - t) / blockDim.x + 1);
    for (int t = 0; t < blockDim.x && t < columns; ++t) {
        float d = scratch[2 * t] - total / columns;
        spread += scratch[2 * t + 1] + ((columns - 1 - t) / blockDim.x + 1) * d * d;
    }
    y[blockIdx.x] = spread / (columns - 1);
}

torch::Tensor row_variance(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options()), scratch = torch::empty({x.size(0), 512}, x.options());
    row_variance_kernel<<<x.size(0), 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), scratch.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_variance"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_variance(x.contiguous())
