# about = "The sums of the valid elements are divided by the count of all, and what lies past an end is not zeroed."
# section = "mismatch"
# problem = "masked_batch_norm"
# faults = [{causes = ["wrong-divisor"], says = ["divi|count|number"]}, {causes = ["mask-ignored", "wrong-fill-value", "operator-missing", "mask-wrong-place"], says = ["mask|valid|length|zero|fill|past|padd"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

norm_src = r"""
#include <torch/extension.h>

__device__ float block_sum(float v, float* scratch) {
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    float total = 0.f;
    for (int k = 0; k < blockDim.x / 32; k++) total += scratch[k];
    __syncthreads();
    return total;
}

__global__ void masked_norm(const float* x, const int64_t* lengths, const float* weight, const float* bias, float* y,
                            int batch, int channels, int steps, float eps) {
    __shared__ float scratch[32];
    int c = blockIdx.x;
    int n = batch * steps;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int b = i / steps, t = i % steps;
        if (t < lengths[b]) sum += x[(b * channels + c) * steps + t];
    }
    float mean = block_sum(sum, scratch) / n;
    float sq = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int b = i / steps, t = i % steps;
        if (t < lengths[b]) {
            float d = x[(b * channels + c) * steps + t] - mean;
            sq += d * d;
        }
    }
    float var = block_sum(sq, scratch) / n;
    float inv = rsqrtf(var + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int b = i / steps, t = i % steps;
        int at = (b * channels + c) * steps + t;
        y[at] = (x[at] - mean) * inv * weight[c] + bias[c];
    }
}

torch::Tensor masked_bn(torch::Tensor x, torch::Tensor lengths, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto y = torch::zeros_like(x);
    masked_norm<<<x.size(1), 128>>>(x.data_ptr<float>(), lengths.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                    bias.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), x.size(2),
                                    (float)eps);
    return y;
}
"""

masked_bn = load_inline(
    name="masked_bn",
    cpp_sources="torch::Tensor masked_bn(torch::Tensor x, torch::Tensor lengths, torch::Tensor weight, torch::Tensor bias, double eps);",
    cuda_sources=norm_src,
    functions=["masked_bn"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x, lengths):
        return masked_bn.masked_bn(x.contiguous(), lengths.contiguous(), self.weight, self.bias, self.eps)
