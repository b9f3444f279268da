# about = "The filter is read backwards along both axes."
# section = "mismatch"
# problem = "convt2d_uneven"
# causes = ["flipped-filter"]
# says = ["flip|backward|revers|mirror|rotat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void conv_transpose_kernel(
    const float* __restrict__ input, const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ output,
    int in_channels, int out_channels, int in_h, int in_w, int out_h, int out_w) {
    const int KH = 3, KW = 4, SH = 2, SW = 3, PH = 1, PW = 0;
    extern __shared__ float filter[];   // [in_channels][KH][KW] of this output channel
    int oc = blockIdx.y;
    int n = blockIdx.z;
    for (int i = threadIdx.x; i < in_channels * KH * KW; i += blockDim.x) {
        int ic = i / (KH * KW);
        int k = i % (KH * KW);
        filter[ic * KH * KW + (KH * KW - 1 - k)] = weight[(ic * out_channels + oc) * KH * KW + k];
    }
    __syncthreads();

    int pos = blockIdx.x * blockDim.x + threadIdx.x;
    if (pos < out_h * out_w) {
        int oh = pos / out_w;
        int ow = pos % out_w;
        float sum = bias[oc];
        for (int ih = 0; ih < in_h; ++ih) {
            int kh = oh + PH - ih * SH;
            if (kh < 0 || kh >= KH) continue;
            for (int iw = 0; iw < in_w; ++iw) {
                int kw = ow + PW - iw * SW;
                if (kw < 0 || kw >= KW) continue;
                for (int ic = 0; ic < in_channels; ++ic)
                    sum += input[((n * in_channels + ic) * in_h + ih) * in_w + iw] * filter[(ic * KH + kh) * KW + kw];
            }
        }
        output[((n * out_channels + oc) * out_h + oh) * out_w + ow] = sum;
    }
}

torch::Tensor conv_transpose(torch::Tensor input, torch::Tensor weight, torch::Tensor bias) {
    int n = input.size(0), ic = input.size(1), h = input.size(2), w = input.size(3), oc = weight.size(1);
    int oh = (h - 1) * 2 - 2 + 3 + 1;
    int ow = (w - 1) * 3 + 4 + 2;
    auto output = torch::empty({n, oc, oh, ow}, input.options());
    dim3 grid((oh * ow + 63) / 64, oc, n);
    conv_transpose_kernel<<<grid, 64, ic * 12 * sizeof(float)>>>(input.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), output.data_ptr<float>(), ic, oc, h, w, oh, ow);
    return output;
}
"""
op = load_inline(name="conv_transpose_2d", cpp_sources="torch::Tensor conv_transpose(torch::Tensor input, torch::Tensor weight, torch::Tensor bias);", cuda_sources=source, functions=["conv_transpose"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inner, outer, (3, 4), stride=(2, 3), padding=(1, 0), output_padding=(1, 2))

    def forward(self, x):
        return op.conv_transpose(x.contiguous(), self.conv.weight, self.conv.bias)
