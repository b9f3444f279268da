# about = "The share of the maximum goes to the average and the other way round."
# section = "mismatch"
# problem = "mixed_pool"
# causes = ["weights-swapped", "operands-swapped"]
# says = ["swap|exchang|weight|share|complement|1 -"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#include <cfloat>
#define K 3
#define STRIDE 2
#define PAD 1

__global__ void mixed_pool_kernel(const float* __restrict__ in, float* __restrict__ out,
                                  int planes, int H, int W, int OH, int OW, float share) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int plane = idx / (OW * OH);
    const float* src = in + plane * H * W;
    float best = -FLT_MAX;
    float sum = 0.0f;
    int count = 0;
    for (int kh = 0; kh < K; ++kh) {
        int h = oh * STRIDE - PAD + kh;
        if (h < 0 || h >= H) continue;
        for (int kw = 0; kw < K; ++kw) {
            int w = ow * STRIDE - PAD + kw;
            if (w < 0 || w >= W) continue;
            float v = src[h * W + w];
            best = fmaxf(best, v);
            sum += v;
            ++count;
        }
    }
    out[idx] = (1.0f - share) * best + share * sum / count;
}

torch::Tensor mixed_pool(torch::Tensor x, double share) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H + 2 * PAD - K) / STRIDE + 1, OW = (W + 2 * PAD - K) / STRIDE + 1;
    auto out = torch::empty({N, C, OH, OW}, x.options());
    int total = N * C * OH * OW;
    mixed_pool_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), N * C, H, W, OH, OW, (float)share);
    return out;
}
"""

ext = load_inline("mixed_pool_module", ["torch::Tensor mixed_pool(torch::Tensor x, double share);"], [SOURCE], functions=["mixed_pool"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        return ext.mixed_pool(x.contiguous(), self.share)
