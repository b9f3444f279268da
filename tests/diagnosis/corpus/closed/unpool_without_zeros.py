# about = "The places that no maximum goes to are never set to zero."
# section = "mismatch"
# problem = "max_unpool"
# causes = ["unwritten-output"]
# says = ["unwritten|not written|never wr|uninitiali|no thread|empty|zero"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

unpool_cuda = r"""
#include <torch/extension.h>

__global__ void keep_max_kernel(const float* __restrict__ x, float* __restrict__ y, int H, int W) {
    const int c = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    const int r = 2 * blockIdx.y;
    if (c + 1 >= W) return;
    const size_t base = ((size_t)blockIdx.z * H + r) * W + c;
    size_t winner = base;
    float best = x[base];
    const size_t others[3] = {base + 1, base + W, base + W + 1};
    for (int k = 0; k < 3; ++k) {
        if (x[others[k]] > best) {
            best = x[others[k]];
            winner = others[k];
        }
    }
    y[winner] = best;
}

torch::Tensor keep_max(torch::Tensor x) {
    const int H = x.size(2), W = x.size(3);
    auto y = torch::empty_like(x);
    const dim3 grid((W / 2 + 31) / 32, H / 2, x.size(0) * x.size(1));
    keep_max_kernel<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), H, W);
    return y;
}
"""

unpool_ext = load_inline(
    name="keep_max",
    cpp_sources="torch::Tensor keep_max(torch::Tensor x);",
    cuda_sources=unpool_cuda,
    functions=["keep_max"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return unpool_ext.keep_max(x.contiguous())
