# about = "The border is mirrored with the edge itself repeated."
# section = "mismatch"
# problem = "blur_downsample"
# causes = ["padding-mode", "index-off-by-one", "padding-off-by-one", "wrong-coordinate"]
# says = ["pad|mirror|reflect|symmetric|edge|border|one"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__constant__ float taps[5] = {1.f / 16, 4.f / 16, 6.f / 16, 4.f / 16, 1.f / 16};

__device__ int reflect(int i, int n) {
    if (i < 0) i = -i - 1;
    if (i >= n) i = 2 * n - 1 - i;
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

ext = load_inline("blur_half_module", ["torch::Tensor blur_half(torch::Tensor x);"], [SOURCE], functions=["blur_half"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.blur_half(x.contiguous())
