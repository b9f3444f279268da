# about = "A workspace that only grows, allocated by torch."
# category = "memory"
# problem = "row_variance"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_variance",
    cpp_sources="torch::Tensor row_variance(torch::Tensor x);",
    cuda_sources=r"""
__device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

static torch::Tensor workspace;

__global__ void row_variance_kernel(const float* x, float* means, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    float sum = 0.f, square = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) sum += row[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) means[blockIdx.x] = sum / columns;
    __syncwarp();
    float mean = means[blockIdx.x];
    for (int i = threadIdx.x; i < columns; i += 32) square += (row[i] - mean) * (row[i] - mean);
    square = warp_sum(square);
    if (threadIdx.x == 0) y[blockIdx.x] = square / (columns - 1);
}

torch::Tensor row_variance(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    if (!workspace.defined() || workspace.numel() < x.size(0)) workspace = torch::empty({2 * x.size(0)}, x.options());
    row_variance_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), workspace.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_variance"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_variance(x.contiguous())
