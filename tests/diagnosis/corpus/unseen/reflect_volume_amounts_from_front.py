# about = "The amounts are read from the depth on; the reference gives those of the width first."
# section = "mismatch"
# problem = "reflect_pad_volume"
# causes = ["padding-sides-swapped", "padding-off-by-one", "wrong-coordinate"]
# says = ["pad|side|amount|axis|axes|depth|width|dimension"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_sources = "torch::Tensor reflect_pad3d(torch::Tensor x, std::vector<int64_t> pads);"

cuda_sources = r"""
#include <torch/extension.h>

__device__ __forceinline__ int mirror(int i, int n) {
    if (i < 0) i = -i;
    if (i >= n) i = 2 * (n - 1) - i;
    return i;
}

__global__ void reflect_kernel(const float* __restrict__ x, float* __restrict__ y, int3 in, int3 out, int3 front) {
    // z of the grid: planes times depth
    const int w = blockIdx.x * blockDim.x + threadIdx.x;
    const int h = blockIdx.y * blockDim.y + threadIdx.y;
    const int d = blockIdx.z % out.x;
    const int plane = blockIdx.z / out.x;
    if (w >= out.z || h >= out.y) return;
    const int sd = mirror(d - front.x, in.x);
    const int sh = mirror(h - front.y, in.y);
    const int sw = mirror(w - front.z, in.z);
    y[(((size_t)plane * out.x + d) * out.y + h) * out.z + w] =
        x[(((size_t)plane * in.x + sd) * in.y + sh) * in.z + sw];
}

torch::Tensor reflect_pad3d(torch::Tensor x, std::vector<int64_t> pads) {
    int3 in = make_int3(x.size(2), x.size(3), x.size(4));
    int3 front = make_int3(pads[0], pads[2], pads[4]);
    int3 out = make_int3(in.x + pads[0] + pads[1], in.y + pads[2] + pads[3], in.z + pads[4] + pads[5]);
    auto y = torch::empty({x.size(0), x.size(1), out.x, out.y, out.z}, x.options());
    dim3 block(8, 4);
    dim3 grid((out.z + 7) / 8, (out.y + 3) / 4, x.size(0) * x.size(1) * out.x);
    reflect_kernel<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), in, out, front);
    return y;
}
"""

pad_module = load_inline(
    name="reflect_pad3d_mod", cpp_sources=cpp_sources, cuda_sources=cuda_sources, functions=["reflect_pad3d"]
)


class ModelNew(nn.Module):
    def __init__(self, amounts):
        super().__init__()
        self.amounts = list(amounts)

    def forward(self, x):
        return pad_module.reflect_pad3d(x.contiguous(), self.amounts)
