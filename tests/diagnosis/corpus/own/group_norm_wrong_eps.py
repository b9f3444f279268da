# about = "eps is 1e-5, the reference has 1e-3."
# section = "mismatch"
# problem = "group_norm"
# causes = ["wrong-eps"]
# says = ["eps"]
# stage = ["verify"]
# line = "1e-5"
# sample = true

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="group_norm",
    cpp_sources="torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups);",
    cuda_sources=r"""
__device__ float block_sum(float v, float* shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += shared[w];
    __syncthreads();
    return total;
}

__global__ void group_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int channels,
                                  int spatial, int groups) {
    __shared__ float shared[32];
    int group = blockIdx.x, sample = blockIdx.y, per = channels / groups, count = per * spatial;
    const float* in = x + (long)(sample * channels + group * per) * spatial;
    float* out = y + (long)(sample * channels + group * per) * spatial;
    float sum = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += in[i];
    float mean = block_sum(sum, shared) / count;
    float square = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) square += (in[i] - mean) * (in[i] - mean);
    float inverse = rsqrtf(block_sum(square, shared) / count + 1e-5f);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int c = group * per + i / spatial;
        out[i] = (in[i] - mean) * inverse * weight[c] + bias[c];
    }
}

torch::Tensor group_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups) {
    auto y = torch::empty_like(x);
    int channels = x.size(1), spatial = x.size(2) * x.size(3);
    group_norm_kernel<<<dim3(groups, x.size(0)), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), channels, spatial, groups);
    return y;
}
""",
    functions=["group_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-3)

    def forward(self, x):
        return ext.group_norm(x.contiguous(), self.norm.weight, self.norm.bias, self.norm.num_groups)
