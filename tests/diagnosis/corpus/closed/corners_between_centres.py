# about = "Places as with align_corners=False."
# section = "mismatch"
# problem = "bilinear_corners"
# causes = ["align-corners", "wrong-coordinate"]
# says = ["align|corner|half|cent|coordinate"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float source_index(float scale, int dst) {
    float s = scale * (dst + 0.5f) - 0.5f;
    return s < 0.f ? 0.f : s;
}

__global__ void upsample_bilinear(const float* __restrict__ idata, float* __restrict__ odata, int nc, int h1, int w1,
                                  int h2, int w2, float rheight, float rwidth) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= h2 * w2) return;
    int wdst = index % w2;
    int hdst = index / w2;
    float h1r = source_index(rheight, hdst);
    int ha = h1r;
    int hp = ha < h1 - 1 ? 1 : 0;
    float h1l = h1r - ha, h0l = 1.f - h1l;
    float w1r = source_index(rwidth, wdst);
    int wa = w1r;
    int wp = wa < w1 - 1 ? 1 : 0;
    float w1l = w1r - wa, w0l = 1.f - w1l;
    for (int p = 0; p < nc; ++p) {
        const float* at = idata + (p * h1 + ha) * w1 + wa;
        odata[(p * h2 + hdst) * w2 + wdst] =
            h0l * (w0l * at[0] + w1l * at[wp]) + h1l * (w0l * at[hp * w1] + w1l * at[hp * w1 + wp]);
    }
}

torch::Tensor upsample(torch::Tensor x, int64_t h2, int64_t w2) {
    int h1 = x.size(2), w1 = x.size(3);
    auto out = torch::empty({x.size(0), x.size(1), h2, w2}, x.options());
    int pixels = h2 * w2;
    upsample_bilinear<<<(pixels + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0) * x.size(1), h1,
                                                  w1, h2, w2, (float)h1 / h2, (float)w1 / w2);
    return out;
}
"""

ext = load_inline(
    name="upsample_bilinear",
    cpp_sources="torch::Tensor upsample(torch::Tensor x, int64_t h2, int64_t w2);",
    cuda_sources=source,
    functions=["upsample"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = tuple(size)

    def forward(self, x):
        return ext.upsample(x.contiguous(), *self.size)
