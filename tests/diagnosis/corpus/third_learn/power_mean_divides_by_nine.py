# about = "Divides the sum of a window by nine; the module asks for another divisor."
# section = "mismatch"
# problem = "power_mean_channels"
# causes = ["pool-divisor", "wrong-divisor", "scale-missing", "hard-coded-size"]
# says = ["divis|divid|count|override|9|nine|factor|window"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void strong_kernel(const float* x, const float* gain, float* out, int C, int H, int W, int OH, int OW, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ow = i % OW, oh = i / OW % OH, c = i / (OW * OH) % C, n = i / (OW * OH * C);
    float acc = 0.f;
    int seen = 0;
    for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) {
            int h = oh * 2 + a, w = ow * 2 + b;
            if (h >= H || w >= W) continue;
            float v = fmaxf(0.f, x[((n * C + c) * H + h) * W + w]);
            acc += v * v;
            ++seen;
        }
    out[((n * 2 * C + c) * OH + oh) * OW + ow] = gain[c] * sqrtf(acc * 9.f / seen);
}

__global__ void mean_kernel(const float* x, const float* gain, float* out, int C, int H, int W, int OH, int OW, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ow = i % OW, oh = i / OW % OH, c = i / (OW * OH) % C, n = i / (OW * OH * C);
    float acc = 0.f;
    for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) {
            int h = oh * 2 + a, w = ow * 2 + b;
            if (h < H && w < W) acc += x[((n * C + c) * H + h) * W + w];
        }
    out[((n * 2 * C + C + c) * OH + oh) * OW + ow] = gain[C + c] * acc / 9.f;
}

torch::Tensor pool_pair(torch::Tensor x, torch::Tensor gain) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H - 2) / 2 + 1, OW = (W - 2) / 2 + 1;
    auto out = torch::empty({N, 2 * C, OH, OW}, x.options());
    int total = N * C * OH * OW;
    dim3 block(192), grid((total + 191) / 192);
    strong_kernel<<<grid, block>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(), C, H, W, OH, OW, total);
    mean_kernel<<<grid, block>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(), C, H, W, OH, OW, total);
    return out;
}
"""

pair = load_inline(name="pool_pair", cpp_sources="torch::Tensor pool_pair(torch::Tensor x, torch::Tensor gain);", cuda_sources=source, functions=["pool_pair"])


class ModelNew(nn.Module):
    def __init__(self, channels, divisor):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(2 * channels) + 0.5)

    def forward(self, x):
        return pair.pool_pair(x.contiguous(), self.gain)
