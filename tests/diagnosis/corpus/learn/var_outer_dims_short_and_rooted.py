# about = "The last element of each row is left out of both sums, and the root is taken."
# section = "mismatch"
# problem = "var_outer_dims"
# faults = [{causes = ["last-element-left-out", "lost-last-block"], says = ["last|one too|short|tail|left out"]}, {causes = ["root-omitted", "operator-doubled", "square-omitted"], says = ["root|sqrt|deviation"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void moments(const float* __restrict__ x, float* __restrict__ out, int batch, int channels, int length) {
    int c = blockIdx.x * blockDim.y + threadIdx.y;
    if (c >= channels) return;
    int lane = threadIdx.x;
    int pairs = length / 2;
    float s = 0.f;
    for (int n = 0; n < batch; ++n) {
        const float* row = x + (n * channels + c) * length;
        for (int p = lane; p < pairs; p += 32) s += row[2 * p] + row[2 * p + 1];
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    int count = batch * pairs * 2;
    float mean = s / count;
    float q = 0.f;
    for (int n = 0; n < batch; ++n) {
        const float* row = x + (n * channels + c) * length;
        for (int p = lane; p < pairs; p += 32) {
            float a = row[2 * p] - mean, b = row[2 * p + 1] - mean;
            q += a * a + b * b;
        }
    }
    for (int o = 16; o; o >>= 1) q += __shfl_xor_sync(0xffffffff, q, o);
    if (lane == 0) out[c] = sqrtf(q / (count - 1));
}

torch::Tensor spread(torch::Tensor x) {
    auto out = torch::empty({x.size(1)}, x.options());
    int channels = x.size(1);
    moments<<<(channels + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), channels, x.size(2));
    return out;
}
"""
mod = load_inline(name="spread_ext", cpp_sources="torch::Tensor spread(torch::Tensor x);", cuda_sources=src, functions=["spread"])


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.spread(x.contiguous())
