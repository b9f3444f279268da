# about = "Two rows and columns of padding before and one after; the reference has one before and two after."
# section = "mismatch"
# problem = "conv2d_same_even"
# causes = ["padding-off-by-one", "padding-sides-swapped", "wrong-coordinate"]
# says = ["pad|side|shift|off by one|before|coordinate"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

conv_cpp = "torch::Tensor conv2d_same(torch::Tensor x, torch::Tensor w, torch::Tensor b);"

conv_cuda = r"""
#include <torch/extension.h>

__global__ void conv2d_same_kernel(const float* __restrict__ x, const float* __restrict__ w,
                                   const float* __restrict__ b, float* __restrict__ y, int C, int H, int W, int K,
                                   int R, int total) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int ow = idx % W;
    int oh = (idx / W) % H;
    int k = (idx / (W * H)) % K;
    int n = idx / (W * H * K);
    int pad = R / 2;
    float acc = b[k];
    for (int c = 0; c < C; ++c) {
        const float* xp = x + (n * C + c) * H * W;
        const float* wp = w + (k * C + c) * R * R;
        for (int r = 0; r < R; ++r) {
            int ih = oh + r - pad;
            if (ih < 0 || ih >= H) continue;
            for (int s = 0; s < R; ++s) {
                int iw = ow + s - pad;
                if (iw < 0 || iw >= W) continue;
                acc = fmaf(xp[ih * W + iw], wp[r * R + s], acc);
            }
        }
    }
    y[idx] = acc;
}

torch::Tensor conv2d_same(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), K = w.size(0), R = w.size(2);
    auto y = torch::empty({N, K, H, W}, x.options());
    int total = N * K * H * W;
    conv2d_same_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                     y.data_ptr<float>(), C, H, W, K, R, total);
    return y;
}
"""

conv_same = load_inline(
    name="conv_same", cpp_sources=[conv_cpp], cuda_sources=[conv_cuda], functions=["conv2d_same"], verbose=False
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, window):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, window, padding="same")

    def forward(self, x):
        return conv_same.conv2d_same(x.contiguous(), self.conv.weight.contiguous(), self.conv.bias.contiguous())
