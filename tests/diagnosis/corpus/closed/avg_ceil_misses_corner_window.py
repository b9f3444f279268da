# about = "Threads past the floor-rounded size leave at once: the overhanging windows are never written."
# section = "mismatch"
# problem = "avg_pool_ceil"
# causes = ["unwritten-output", "lost-last-block", "wrong-rounding", "last-element-left-out"]
# says = ["last|unwritten|not written|never wr|no thread|ceil|edge"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pool_cuda = r"""
#include <torch/extension.h>

__global__ void pool_fwd(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    const int ox = blockIdx.x * blockDim.x + threadIdx.x;
    const int oy = blockIdx.y * blockDim.y + threadIdx.y;
    const int plane = blockIdx.z;
    const int y0 = oy * 2 - 1;
    const int x0 = ox * 2 - 1;
    if (y0 + 3 > h + 1 || x0 + 3 > w + 1) return;
    float sum = 0.f;
    for (int r = max(y0, 0); r < min(y0 + 3, h); ++r) {
        for (int c = max(x0, 0); c < min(x0 + 3, w); ++c) {
            sum += x[((size_t)plane * h + r) * w + c];
        }
    }
    const int rows = min(y0 + 3, h + 1) - y0;
    const int cols = min(x0 + 3, w + 1) - x0;
    y[((size_t)plane * oh + oy) * ow + ox] = sum / (rows * cols);
}

torch::Tensor pool(torch::Tensor x) {
    const int h = x.size(2), w = x.size(3);
    const int oh = (h + 2 - 3 + 1) / 2 + 1;
    const int ow = (w + 2 - 3 + 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    const dim3 block(16, 16);
    const dim3 grid((ow + 15) / 16, (oh + 15) / 16, x.size(0) * x.size(1));
    pool_fwd<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow);
    return y;
}
"""

pool_ext = load_inline(
    name="pool_fwd_ext",
    cpp_sources="torch::Tensor pool(torch::Tensor x);",
    cuda_sources=pool_cuda,
    functions=["pool"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return pool_ext.pool(x.contiguous())
