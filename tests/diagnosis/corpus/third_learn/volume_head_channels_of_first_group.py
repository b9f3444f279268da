# about = "Every group reads the input channels of the first one."
# section = "mismatch"
# problem = "volume_head"
# causes = ["groups-ignored", "wrong-channel", "lost-channels"]
# says = ["group|channel"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

struct Vol { int c, d, h, w; };

// a block for a cell of the grid and an output channel: it convolves what it needs and averages at once
__global__ void cell_mean(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                          float* __restrict__ y, const Vol in, const Vol grid, const int per_group, const int taps_in) {
    const int OD = in.d, OH = in.h, OW = in.w - 1;
    int cell = blockIdx.x;
    const int pw = cell % grid.w; cell /= grid.w;
    const int ph = cell % grid.h; cell /= grid.h;
    const int pd = cell;
    const int oc = blockIdx.y, n = blockIdx.z;
    const int d0 = pd * OD / grid.d, d1 = ((pd + 1) * OD + grid.d - 1) / grid.d;
    const int h0 = ph * OH / grid.h, h1 = ((ph + 1) * OH + grid.h - 1) / grid.h;
    const int w0 = pw * OW / grid.w, w1 = ((pw + 1) * OW + grid.w - 1) / grid.w;
    const int nd = d1 - d0, nh = h1 - h0, nw = w1 - w0, count = nd * nh * nw;
    float mine = 0.f;
    for (int k = threadIdx.x; k < count; k += 32) {
        const int ow = w0 + k % nw, oh = h0 + k / nw % nh, od = d0 + k / (nw * nh);
        float acc = bias[oc];
        for (int i = 0; i < taps_in; ++i) {
            const int ch = i;
            const float* plane = x + ((size_t)n * in.c + ch) * in.d * in.h * in.w;
            const float* filter = weight + ((size_t)oc * taps_in + i) * 18;
            for (int t = 0; t < 18; ++t) {
                const int d = od + t / 6 - 1, h = oh + t / 2 % 3 * 2 - 2, w = ow + t % 2;
                if ((unsigned)d < (unsigned)in.d && (unsigned)h < (unsigned)in.h && w < in.w)
                    acc = fmaf(plane[(d * in.h + h) * in.w + w], filter[t], acc);
            }
        }
        mine += fminf(1.f, fmaxf(-0.5f, acc));
    }
    for (int o = 16; o > 0; o >>= 1) mine += __shfl_xor_sync(0xffffffffu, mine, o);
    if (threadIdx.x == 0) y[((size_t)n * gridDim.y + oc) * gridDim.x + blockIdx.x] = mine / count;
}

torch::Tensor head(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, std::vector<int64_t> grid) {
    const int OC = weight.size(0);
    auto y = torch::empty({x.size(0), OC, grid[0], grid[1], grid[2]}, x.options());
    const Vol in{(int)x.size(1), (int)x.size(2), (int)x.size(3), (int)x.size(4)};
    const Vol g{OC, (int)grid[0], (int)grid[1], (int)grid[2]};
    cell_mean<<<dim3(g.d * g.h * g.w, OC, x.size(0)), 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
        weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), in, g, OC / groups, weight.size(1));
    return y;
}
"""
ext = load_inline("cell_means", cpp_sources="torch::Tensor head(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, std::vector<int64_t> grid);",
                  cuda_sources=SRC, functions=["head"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.groups, self.grid = groups, list(grid)

    def forward(self, x):
        return ext.head(x.contiguous(), self.conv.weight, self.conv.bias, self.groups, self.grid)
