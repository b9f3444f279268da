# about = "The average always divides by nine, border or not."
# section = "mismatch"
# problem = "mixed_pool"
# causes = ["pool-divisor", "wrong-divisor"]
# says = ["divis|divid|count|pad"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
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
    out[idx] = share * best + (1.0f - share) * sum / (K * K);
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

cpp_source = "torch::Tensor mixed_pool(torch::Tensor x, double share);"

ext = load_inline(
    name="mixed_pool_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["mixed_pool"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        return ext.mixed_pool(x.contiguous(), self.share)
