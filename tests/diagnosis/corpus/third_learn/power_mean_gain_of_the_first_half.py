# about = "The means take the gains of the first half of the channels."
# section = "mismatch"
# problem = "power_mean_channels"
# causes = ["wrong-channel", "affine-per-group", "layout-misread", "index-ignored", "bias-wrong-index"]
# says = ["channel|index|half|gain|weight|offset|element|parameter"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

code = """
#include <torch/extension.h>

template <bool SQUARES>
__device__ float window(const float* plane, int top, int left, int H, int W, int& seen) {
    float acc = 0.0f;
    seen = 0;
    for (int h = top; h < top + 3 && h < H; h++)
        for (int w = left; w < left + 3 && w < W; w++) {
            float v = plane[h * W + w];
            if (SQUARES) acc += v > 0.0f ? v * v : 0.0f;
            else acc += v;
            seen++;
        }
    return acc;
}

__global__ void pool_cat(const float* x, const float* gain, float* out, int N, int C, int H, int W, int OH, int OW, float divisor) {
    int total = N * 2 * C * OH * OW;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int ow = i % OW;
        int oh = (i / OW) % OH;
        int oc = (i / (OW * OH)) % (2 * C);
        int n = i / (OW * OH * 2 * C);
        int c = oc % C;
        const float* plane = x + (n * C + c) * H * W;
        int seen;
        float v;
        if (oc < C) {
            v = window<true>(plane, oh * 2, ow * 2, H, W, seen);
            v = sqrtf(v / seen * 9.0f);
        } else {
            v = window<false>(plane, oh * 2, ow * 2, H, W, seen) / divisor;
        }
        out[i] = v * gain[c];
    }
}

torch::Tensor pool_cat_cuda(torch::Tensor x, torch::Tensor gain, int64_t divisor) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (int)ceilf((H - 3) / 2.0f) + 1, OW = (int)ceilf((W - 3) / 2.0f) + 1;
    auto out = torch::empty({N, 2 * C, OH, OW}, x.options());
    pool_cat<<<4, 128>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(), N, C, H, W, OH, OW, (float)divisor);
    return out;
}
"""

mod = load_inline("pool_cat", cpp_sources="torch::Tensor pool_cat_cuda(torch::Tensor x, torch::Tensor gain, int64_t divisor);",
                  cuda_sources=code, functions=["pool_cat_cuda"])


class ModelNew(nn.Module):
    def __init__(self, channels, divisor):
        super().__init__()
        self.divisor = divisor
        self.gain = nn.Parameter(torch.rand(2 * channels) + 0.5)

    def forward(self, x):
        return mod.pool_cat_cuda(x.contiguous(), self.gain, self.divisor)
