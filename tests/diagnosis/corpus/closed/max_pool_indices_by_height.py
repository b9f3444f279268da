# about = "The place in the plane is computed with its height, where the row's length belongs."
# section = "mismatch"
# problem = "max_pool_indices"
# causes = ["layout-misread", "wrong-index-base", "hard-coded-size"]
# says = ["height|width|stride|row|15|22"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <vector>

__global__ void maxpool_idx_kernel(const float* __restrict__ in, float* __restrict__ out, int64_t* __restrict__ idx,
                                   int H, int W, int OH, int OW) {
    const int plane = blockIdx.x;
    const float* src = in + (size_t)plane * H * W;
    for (int o = threadIdx.x; o < OH * OW; o += blockDim.x) {
        const int oy = o / OW, ox = o % OW;
        const int y0 = max(2 * oy - 1, 0), y1 = min(2 * oy + 2, H);
        const int x0 = max(2 * ox - 1, 0), x1 = min(2 * ox + 2, W);
        int by = y0, bx = x0;
        float best = src[y0 * W + x0];
        for (int y = y0; y < y1; ++y) {
            for (int x = x0; x < x1; ++x) {
                const float v = src[y * W + x];
                if (v > best) {
                    best = v;
                    by = y;
                    bx = x;
                }
            }
        }
        out[(size_t)plane * OH * OW + o] = best;
        idx[(size_t)plane * OH * OW + o] = by * H + bx;
    }
}

std::vector<torch::Tensor> maxpool_idx(torch::Tensor x) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const int OH = (H + 2 - 3) / 2 + 1, OW = (W + 2 - 3) / 2 + 1;
    auto out = torch::empty({N, C, OH, OW}, x.options());
    auto idx = torch::empty({N, C, OH, OW}, x.options().dtype(torch::kLong));
    maxpool_idx_kernel<<<N * C, 96>>>(x.data_ptr<float>(), out.data_ptr<float>(), idx.data_ptr<int64_t>(), H, W, OH,
                                      OW);
    return {out, idx};
}
"""

maxpool_idx = load_inline(
    name="maxpool_idx",
    cpp_sources="std::vector<torch::Tensor> maxpool_idx(torch::Tensor x);",
    cuda_sources=source,
    functions=["maxpool_idx"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        out, idx = maxpool_idx.maxpool_idx(x.contiguous())
        return out, idx
