# about = "The upper bound is left out, and the cells are sums where the reference has means."
# section = "mismatch"
# problem = "volume_head"
# faults = [{causes = ["clamp-missing", "clamp-bounds", "wrong-activation", "activation-missing", "operator-missing"], says = ["clamp|bound|upper|max|limit|activation"]}, {causes = ["sum-for-mean", "pool-divisor", "wrong-divisor"], says = ["sum|mean|divis|divid|count|averag"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

template <int KD, int KH, int KW>
__global__ void conv(const float* __restrict__ in, const float* __restrict__ wt, const float* __restrict__ bs, float* __restrict__ out,
                     int C, int O, int G, int D, int H, int W) {
    const int o = blockIdx.y, n = blockIdx.z;
    const int OW = W - KW + 1;
    const int cg = C / G, g = o / (O / G);
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < D * H * OW; p += gridDim.x * blockDim.x) {
        const int w0 = p % OW, h0 = (p / OW) % H - 2, d0 = p / (OW * H) - 1;
        float acc = bs[o];
        for (int c = 0; c < cg; ++c) {
            const float* src = in + (size_t)((n * C + g * cg + c) * D) * H * W;
            #pragma unroll
            for (int k = 0; k < KD * KH * KW; ++k) {
                const int d = d0 + k / (KH * KW), h = h0 + 2 * ((k / KW) % KH), w = w0 + k % KW;
                const bool ok = d >= 0 && d < D && h >= 0 && h < H;
                acc += ok ? src[(d * H + h) * W + w] * wt[(o * cg + c) * KD * KH * KW + k] : 0.0f;
            }
        }
        out[(size_t)((n * O + o) * D * H) * OW + p] = fmaxf(acc, -0.5f);
    }
}

__global__ void pool(const float* in, float* out, int D, int H, int W, int a, int b, int c, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int z = i % c, y = (i / c) % b, x = (i / (c * b)) % a;
    const float* p = in + (i / (a * b * c)) * D * H * W;
    float s = 0.0f;
    for (int d = x * D / a; d * a < (x + 1) * D; ++d)
        for (int h = y * H / b; h * b < (y + 1) * H; ++h)
            for (int w = z * W / c; w * c < (z + 1) * W; ++w) {
                s += p[(d * H + h) * W + w];
            }
    out[i] = s;
}

torch::Tensor conv_pool(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t G, int64_t a, int64_t b, int64_t c) {
    const int N = x.size(0), C = x.size(1), D = x.size(2), H = x.size(3), W = x.size(4), O = w.size(0);
    auto mid = torch::empty({N, O, D, H, W - 1}, x.options());
    auto out = torch::empty({N, O, a, b, c}, x.options());
    conv<3, 3, 2><<<dim3(2, O, N), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), mid.data_ptr<float>(), C, O, G, D, H, W);
    pool<<<(out.numel() + 127) / 128, 128>>>(mid.data_ptr<float>(), out.data_ptr<float>(), D, H, W - 1, a, b, c, out.numel());
    return out;
}
"""

conv_pool = load_inline(
    name="conv_pool",
    cpp_sources="torch::Tensor conv_pool(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t G, int64_t a, int64_t b, int64_t c);",
    cuda_sources=cuda_src,
    functions=["conv_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.groups = groups
        self.grid = grid

    def forward(self, x):
        a, b, c = self.grid
        return conv_pool.conv_pool(x.contiguous(), self.conv.weight, self.conv.bias, self.groups, a, b, c)
