# about = "The folded sum is not divided by the number of patches on a pixel."
# section = "mismatch"
# problem = "overlap_fold"
# causes = ["sum-for-mean", "wrong-divisor", "pool-divisor", "operator-missing", "scale-missing"]
# says = ["divi|count|sum|mean|average|normalis|normaliz|overlap|operator|step|missing|left out|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// mean of each 3 x 3 patch over all channels; what lies outside counts as zero
__global__ void patch_mean_kernel(const float* x, float* mean, int N, int C, int H, int W, int PH, int PW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * PH * PW) return;
    int px = idx % PW;
    int py = (idx / PW) % PH;
    int n = idx / (PW * PH);
    float sum = 0.0f;
    int count = C * 9;
    for (int c = 0; c < C; c++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int y = py * 2 + dy, xx = px * 2 + dx;
                if (y < 0 || y >= H || xx < 0 || xx >= W) continue;
                sum += x[((n * C + c) * H + y) * W + xx];
            }
    mean[idx] = sum / count;
}

// each pixel collects from the patches that hold it
__global__ void fold_kernel(const float* x, const float* mean, const float* weight, float* out, int N, int C, int H, int W,
                            int PH, int PW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * C * H * W) return;
    int col = idx % W;
    int row = (idx / W) % H;
    int c = (idx / (W * H)) % C;
    int n = idx / (W * H * C);
    float acc = 0.0f;
    for (int ky = 0; ky < 3; ky++) {
        int ty = row + 1 - ky;
        if (ty < 0 || (ty & 1) || ty / 2 >= PH) continue;
        for (int kx = 0; kx < 3; kx++) {
            int tx = col + 1 - kx;
            if (tx < 0 || (tx & 1) || tx / 2 >= PW) continue;
            float m = mean[(n * PH + ty / 2) * PW + tx / 2];
            acc += (x[idx] - m) * weight[(c * 3 + ky) * 3 + kx];
        }
    }
    out[idx] = acc;
}

torch::Tensor overlap(torch::Tensor x, torch::Tensor weight) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int PH = (H - 1) / 2 + 1, PW = (W - 1) / 2 + 1;
    auto mean = torch::empty({N, PH, PW}, x.options());
    auto out = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    patch_mean_kernel<<<(N * PH * PW + 63) / 64, 64, 0, stream>>>(x.data_ptr<float>(), mean.data_ptr<float>(), N, C, H, W, PH, PW);
    fold_kernel<<<(N * C * H * W + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), mean.data_ptr<float>(),
        weight.data_ptr<float>(), out.data_ptr<float>(), N, C, H, W, PH, PW);
    return out;
}
"""

overlap_ext = load_inline(
    name="overlap_ext",
    cpp_sources="torch::Tensor overlap(torch::Tensor x, torch::Tensor weight);",
    cuda_sources=source,
    functions=["overlap"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels * 9) + 0.5)

    def forward(self, x):
        return overlap_ext.overlap(x.contiguous(), self.weight)
