# about = "The detail is added to repeated pixels where the reference enlarges linearly."
# section = "mismatch"
# problem = "sub_pixel_residual"
# causes = ["interpolation-mode", "wrong-rounding", "wrong-coordinate", "truncated-to-integer"]
# says = ["nearest|linear|interpol|repeat|round|fraction|truncat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#define TH 4
#define TW 8

// a tile of coarse pixels per block, all fine pixels of each are computed by its thread
__global__ void espcn(const float* x, const float* w, const float* bias, float* out, int C, int H, int W, int r, float slope) {
    __shared__ float patch[TH + 2][TW + 2];
    const int h0 = blockIdx.y * TH, w0 = blockIdx.x * TW;
    const int c = blockIdx.z % C, n = blockIdx.z / C;
    const int tid = threadIdx.y * TW + threadIdx.x;
    const int h = h0 + threadIdx.y, v = w0 + threadIdx.x;
    float acc[4];
    for (int k = 0; k < r * r; ++k) acc[k] = bias[c * r * r + k];
    for (int ic = 0; ic < C; ++ic) {
        for (int i = tid; i < (TH + 2) * (TW + 2); i += TH * TW) {
            const int y = h0 - 1 + i / (TW + 2), z = w0 - 1 + i % (TW + 2);
            patch[i / (TW + 2)][i % (TW + 2)] = (y >= 0 && y < H && z >= 0 && z < W) ? x[((n * C + ic) * H + y) * W + z] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < r * r; ++k)
            for (int t = 0; t < 9; ++t)
                acc[k] += patch[threadIdx.y + t / 3][threadIdx.x + t % 3] * w[((c * r * r + k) * C + ic) * 9 + t];
        __syncthreads();
    }
    if (h < H && v < W) {
        const float base = x[((n * C + c) * H + h) * W + v];
        for (int k = 0; k < r * r; ++k) {
            const float a = acc[k] > 0.0f ? acc[k] : slope * acc[k];
            out[((n * C + c) * H * r + h * r + k / r) * W * r + v * r + k % r] = a + base;
        }
    }
}

torch::Tensor espcn_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t r, double slope) {
    TORCH_CHECK(r == 2, "only a factor of two");
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto out = torch::empty({N, C, H * r, W * r}, x.options());
    dim3 grid((W + TW - 1) / TW, (H + TH - 1) / TH, N * C);
    espcn<<<grid, dim3(TW, TH)>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), C, H, W, r, slope);
    return out;
}
"""

espcn = load_inline(
    name="espcn",
    cpp_sources="torch::Tensor espcn_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t r, double slope);",
    cuda_sources=source,
    functions=["espcn_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, factor, slope):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels * factor * factor, 3, padding=1)
        self.factor = factor
        self.slope = slope

    def forward(self, x):
        return espcn.espcn_forward(x.contiguous(), self.conv.weight, self.conv.bias, self.factor, self.slope)
