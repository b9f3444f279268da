# about = "The filter is 1, 3, 6, 3, 1 over 14, not 1, 4, 6, 4, 1 over 16."
# section = "mismatch"
# problem = "blur_downsample"
# causes = ["wrong-coefficient", "wrong-divisor"]
# says = ["coefficient|tap|weight|filter|constant|factor|kernel"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__constant__ float taps[5] = {1.f / 14, 3.f / 14, 6.f / 14, 3.f / 14, 1.f / 14};

__device__ int reflect(int i, int n) {
    if (i < 0) i = -i;
    if (i >= n) i = 2 * n - 2 - i;
    return i;
}

__global__ void blur(const float* x, float* y, int planes, int H, int W, int OH, int OW) {
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y * blockDim.y + threadIdx.y;
    int p = blockIdx.z;
    if (ow >= OW || oh >= OH) return;
    const float* in = x + p * H * W;
    float acc = 0.f;
    for (int i = 0; i < 5; ++i) {
        int h = reflect(oh * 2 + i - 2, H);
        float line = 0.f;
        for (int j = 0; j < 5; ++j) line += taps[j] * in[h * W + reflect(ow * 2 + j - 2, W)];
        acc += taps[i] * line;
    }
    y[(p * OH + oh) * OW + ow] = acc;
}

torch::Tensor blur_half(torch::Tensor x) {
    int H = x.size(2), W = x.size(3), planes = x.size(0) * x.size(1);
    int OH = (H - 1) / 2 + 1, OW = (W - 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), OH, OW}, x.options());
    dim3 block(16, 8), grid((OW + 15) / 16, (OH + 7) / 8, planes);
    blur<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), planes, H, W, OH, OW);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor blur_half(torch::Tensor x);
"""

ext = load_inline(
    name="fused_blur_half",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["blur_half"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.blur_half(x.contiguous())
