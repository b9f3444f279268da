# about = "The stride of the rows is not applied, and the bias is that of the input channel."
# section = "mismatch"
# problem = "conv3d_depthwise"
# faults = [{causes = ["stride-ignored"], says = ["stride"]}, {causes = ["bias-wrong-index"], says = ["bias"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <torch/extension.h>

__global__ void depthwise(const float* __restrict__ in, const float* __restrict__ filt, const float* __restrict__ bias,
                          float* __restrict__ out, int C, int mult, int D, int H, int W, int OD, int OH, int OW) {
    __shared__ float f[18];
    int plane = blockIdx.x;                 // n * C * mult + oc
    int oc = plane % (C * mult);
    int n = plane / (C * mult);
    int c = oc / mult;
    if (threadIdx.x < 18) f[threadIdx.x] = filt[oc * 18 + threadIdx.x];
    __syncthreads();
    const float* src = in + (n * C + c) * D * H * W;
    float* dst = out + (long)plane * OD * OH * OW;
    for (int v = threadIdx.x; v < OD * OH * OW; v += blockDim.x) {
        int x = v % OW, y = (v / OW) % OH, z = v / (OW * OH);
        float sum = 0.f;
        #pragma unroll
        for (int kz = 0; kz < 2; kz++)
            #pragma unroll
            for (int ky = 0; ky < 3; ky++)
                #pragma unroll
                for (int kx = 0; kx < 3; kx++) {
                    int iy = y + ky - 1, ix = x + kx - 1, iz = z + kz;
                    if (iy >= 0 && iy < H && ix >= 0 && ix < W) sum += src[(iz * H + iy) * W + ix] * f[(kz * 3 + ky) * 3 + kx];
                }
        dst[v] = sum + bias[c];
    }
}

torch::Tensor depthwise_conv3d(torch::Tensor in, torch::Tensor filt, torch::Tensor bias) {
    int N = in.size(0), C = in.size(1), D = in.size(2), H = in.size(3), W = in.size(4), mult = filt.size(0) / C;
    int OD = D - 2 + 1, OH = (H + 2 * 1 - 3) / 2 + 1, OW = (W + 2 * 1 - 3) + 1;
    auto out = torch::empty({N, C * mult, OD, OH, OW}, in.options());
    depthwise<<<N * C * mult, 64>>>(in.data_ptr<float>(), filt.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(),
                                    C, mult, D, H, W, OD, OH, OW);
    return out;
}
"""
cpp_code = "torch::Tensor depthwise_conv3d(torch::Tensor in, torch::Tensor filt, torch::Tensor bias);"
dw = load_inline(name="depthwise_conv3d", cpp_sources=cpp_code, cuda_sources=cuda_code, functions=["depthwise_conv3d"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv3d(channels, 2 * channels, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=channels)

    def forward(self, x):
        return dw.depthwise_conv3d(x.contiguous(), self.conv.weight, self.conv.bias)
