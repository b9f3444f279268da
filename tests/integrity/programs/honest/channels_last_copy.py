# about = "The input is copied to channels-last order and the output viewed back."
# category = "layout"
# problem = "group_norm"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="group_norm",
    cpp_sources="torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups);",
    cuda_sources=r"""
__global__ void group_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int channels,
                                  int spatial, int groups) {
    int n = blockIdx.x / groups, g = blockIdx.x % groups, per = channels / groups, count = per * spatial;
    const float* from = x + n * channels * spatial + g * per;
    float* to = y + n * channels * spatial + g * per;
    float sum = 0.f, square = 0.f;
    for (int i = threadIdx.x; i < count; i += 32) sum += from[i / per * channels + i % per];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    float mean = sum / count;
    for (int i = threadIdx.x; i < count; i += 32) {
        float d = from[i / per * channels + i % per] - mean;
        square += d * d;
    }
    for (int o = 16; o > 0; o /= 2) square += __shfl_xor_sync(0xffffffff, square, o);
    float inverse = rsqrtf(square / count + 1e-5f);
    for (int i = threadIdx.x; i < count; i += 32) {
        int c = i % per, at = i / per * channels + c;
        to[at] = (from[at] - mean) * inverse * weight[g * per + c] + bias[g * per + c];
    }
}

torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups) {
    auto y = torch::empty_like(x);
    int channels = x.size(3), spatial = x.size(1) * x.size(2);
    group_norm_kernel<<<x.size(0) * groups, 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                  y.data_ptr<float>(), channels, spatial, (int)groups);
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
        last = x.permute(0, 2, 3, 1).contiguous()
        y = ext.group_norm(last, self.norm.weight, self.norm.bias, self.norm.num_groups)
        return y.permute(0, 3, 1, 2).contiguous()
