# about = "The bias is forgotten."
# category = "values"
# problem = "group_norm"
# status = ["incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="group_norm",
    cpp_sources="torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups);",
    cuda_sources=r"""
__global__ void group_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int channels,
                                  int spatial, int groups) {
    __shared__ float sums[128], squares[128];
    int per = channels / groups, count = per * spatial;
    int64_t start = (int64_t)(blockIdx.y * channels + blockIdx.x * per) * spatial;
    float sum = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += x[start + i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float mean = sums[0] / count, square = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) square += (x[start + i] - mean) * (x[start + i] - mean);
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
        __syncthreads();
    }
    float inverse = rsqrtf(squares[0] / count + 1e-5f);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int c = blockIdx.x * per + i / spatial;
        y[start + i] = (x[start + i] - mean) * inverse * weight[c];
    }
}

torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups) {
    auto y = torch::empty_like(x);
    int channels = x.size(1), spatial = x.size(2) * x.size(3);
    group_norm_kernel<<<dim3(groups, x.size(0)), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), channels, spatial, (int)groups);
    return y;
}
""",
    functions=["group_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return ext.group_norm(x.contiguous(), self.norm.weight, self.norm.bias, self.norm.num_groups)
