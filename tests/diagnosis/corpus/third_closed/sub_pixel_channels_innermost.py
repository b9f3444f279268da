# about = "The channels of the convolution are split with the image's channel last; the reference has it first."
# section = "mismatch"
# problem = "sub_pixel_residual"
# causes = ["layout-misread", "wrong-channel", "inverse-permutation", "transposed-operand"]
# says = ["channel|layout|order|shuffle|permut|index|dim|transpos"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void upscale_kernel(const float* x, const float* w, const float* bias, float* out, float slope, int N, int C, int H, int W, int r) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int OH = H * r, OW = W * r;
    if (idx >= N * C * OH * OW) return;
    int ox = idx % OW, oy = (idx / OW) % OH, c = (idx / (OW * OH)) % C, n = idx / (OW * OH * C);
    int h = oy / r, v = ox / r, i = oy % r, j = ox % r;
    int oc = (i * r + j) * C + c;

    float sum = bias[oc];
    for (int ic = 0; ic < C; ic++)
        for (int kh = 0; kh < 3; kh++)
            for (int kw = 0; kw < 3; kw++) {
                int y = h + kh - 1, z = v + kw - 1;
                if (y >= 0 && y < H && z >= 0 && z < W)
                    sum += x[((n * C + ic) * H + y) * W + z] * w[((oc * C + ic) * 3 + kh) * 3 + kw];
            }
    sum = sum > 0.0f ? sum : sum * slope;

    float sy = fmaxf((oy + 0.5f) / r - 0.5f, 0.0f), sx = fmaxf((ox + 0.5f) / r - 0.5f, 0.0f);
    int y0 = (int)sy, x0 = (int)sx;
    int y1 = min(y0 + 1, H - 1), x1 = min(x0 + 1, W - 1);
    float ty = sy - y0, tx = sx - x0;
    const float* p = x + (n * C + c) * H * W;
    float base = (1 - ty) * ((1 - tx) * p[y0 * W + x0] + tx * p[y0 * W + x1]) + ty * ((1 - tx) * p[y1 * W + x0] + tx * p[y1 * W + x1]);
    out[idx] = sum + base;
}

torch::Tensor upscale(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t r, double slope) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto out = torch::empty({N, C, H * r, W * r}, x.options());
    int total = out.numel();
    upscale_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(),
                                                 (float)slope, N, C, H, W, r);
    return out;
}
"""

up = load_inline(
    name="sub_pixel_upscale",
    cpp_sources="torch::Tensor upscale(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t r, double slope);",
    cuda_sources=cuda_source,
    functions=["upscale"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, factor, slope):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels * factor * factor, 3, padding=1)
        self.factor = factor
        self.slope = slope

    def forward(self, x):
        return up.upscale(x.contiguous(), self.conv.weight, self.conv.bias, self.factor, self.slope)
