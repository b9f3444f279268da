# about = "The window is three high and two wide, the wrong way round, at the right places."
# section = "mismatch"
# problem = "avg_pool_override"
# causes = ["pool-window", "coordinates-swapped", "layout-misread"]
# says = ["window|kernel|height|width|swap|exchang|transpos"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = """
#include <torch/extension.h>

__global__ void pool_div_kernel(const float* __restrict__ x, float* __restrict__ y, int planes, int H, int W, int OH,
                                int OW, int kx, int ky, int sy, int sx, float inv) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < planes * OH * OW) {
        int ow = idx % OW;
        int oh = (idx / OW) % OH;
        int plane = idx / (OW * OH);
        float sum = 0.0f;
        for (int i = 0; i < ky; i++) {
            for (int j = 0; j < kx; j++) {
                int h = oh * sy + i;
                int w = ow * sx + j;
                if (h < H && w < W) {
                    sum += x[(plane * H + h) * W + w];
                }
            }
        }
        y[idx] = sum * inv;
    }
}

torch::Tensor pool_div(torch::Tensor x, int kh, int kw, double divisor) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H - kh) / kh + 1;
    int OW = (W - kw) / kw + 1;
    auto y = torch::empty({N, C, OH, OW}, x.options());
    int total = N * C * OH * OW;
    pool_div_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), N * C, H, W, OH, OW, kh, kw,
                                                  kh, kw, (float)(1.0 / divisor));
    return y;
}
"""

pool_div = load_inline(
    name="pool_div",
    cpp_sources="torch::Tensor pool_div(torch::Tensor x, int kh, int kw, double divisor);",
    cuda_sources=src,
    functions=["pool_div"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.divisor = 5.0

    def forward(self, x):
        return pool_div.pool_div(x.contiguous(), 2, 3, self.divisor)
