# about = "The output padding is not in the size: a row and a column too few."
# section = "mismatch"
# problem = "convt2d_dilated"
# causes = ["wrong-shape", "output-size"]
# says = ["shape|size|output.padding|rows|columns"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void fill_bias(float* y, const float* bias, int area, int channels, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = bias[i / area % channels];
}

// a thread per input element scatters into the output
__global__ void scatter(const float* x, const float* w, float* y, int inner, int per_group_in, int per_group_out,
                        int ih, int iw, int oh, int ow, int outer, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ix = i % iw, iy = i / iw % ih, c = i / (iw * ih) % inner, b = i / (iw * ih * inner);
    int group = c / per_group_in;
    float v = x[i];
    for (int j = 0; j < per_group_out; j++) {
        float* plane = y + (b * outer + group * per_group_out + j) * oh * ow;
        for (int ky = 0; ky < 3; ky++) {
            int oy = iy * 2 - 1 + ky * 2;
            if (oy < 0 || oy >= oh) continue;
            for (int kx = 0; kx < 3; kx++) {
                int ox = ix * 2 - 1 + kx * 2;
                if (ox < 0 || ox >= ow) continue;
                atomicAdd(plane + oy * ow + ox, v * w[((c * per_group_out + j) * 3 + ky) * 3 + kx]);
            }
        }
    }
}

torch::Tensor deconv(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t groups) {
    int batch = x.size(0), inner = x.size(1), ih = x.size(2), iw = x.size(3);
    int per_out = w.size(1), outer = per_out * groups;
    int oh = (ih - 1) * 2 - 2 * 1 + 2 * (3 - 1) + 1;
    int ow = (iw - 1) * 2 - 2 * 1 + 2 * (3 - 1) + 1;
    auto y = torch::empty({batch, outer, oh, ow}, x.options());
    int n = x.numel(), m = y.numel();
    fill_bias<<<(m + 255) / 256, 256>>>(y.data_ptr<float>(), bias.data_ptr<float>(), oh * ow, outer, m);
    scatter<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), inner,
                                   inner / groups, per_out, ih, iw, oh, ow, outer, n);
    return y;
}
"""

deconv = load_inline(
    name="deconv",
    cpp_sources="torch::Tensor deconv(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t groups);",
    cuda_sources=cuda_src,
    functions=["deconv"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose2d(
            inner, outer, 3, stride=2, padding=1, output_padding=1, groups=groups, dilation=2
        )

    def forward(self, x):
        return deconv.deconv(x.contiguous(), self.conv.weight, self.conv.bias, self.groups)
