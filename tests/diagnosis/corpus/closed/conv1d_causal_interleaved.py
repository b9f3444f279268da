# about = "The group of an output channel is taken modulo, as if groups were interleaved."
# section = "mismatch"
# problem = "conv1d_causal_grouped"
# causes = ["wrong-channel", "groups-ignored"]
# says = ["group|channel"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#define TILE 16
#define MAXHALO 16

__global__ void tiled_causal(const float* x, const float* w, const float* b, float* y, int ic, int oc, int len, int dil, int groups) {
    __shared__ float tile[4][TILE + MAXHALO];
    int per = ic / groups;
    int o = blockIdx.y, n = blockIdx.z;
    int g = o % groups;
    int halo = 2 * dil;
    int base = blockIdx.x * TILE;
    for (int i = threadIdx.x; i < per * (TILE + halo); i += blockDim.x) {
        int c = i / (TILE + halo), j = i % (TILE + halo);
        int s = base + j - halo;
        tile[c][j] = (s >= 0 && s < len) ? x[(n * ic + g * per + c) * len + s] : 0.f;
    }
    __syncthreads();
    int t = base + threadIdx.x;
    if (t >= len) return;
    float acc = b[o];
    for (int c = 0; c < per; ++c)
        for (int k = 0; k < 3; ++k) acc += tile[c][threadIdx.x + k * dil] * w[(o * per + c) * 3 + k];
    y[(n * oc + o) * len + t] = acc;
}

torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, int dil, int groups) {
    auto y = torch::empty({x.size(0), w.size(0), x.size(2)}, x.options());
    dim3 grid((x.size(2) + TILE - 1) / TILE, w.size(0), x.size(0));
    tiled_causal<<<grid, TILE>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                 x.size(1), w.size(0), x.size(2), dil, groups);
    return y;
}
"""
tiled = load_inline(name="tiled_causal", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b, int dil, int groups);", cuda_sources=src, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, dilation):
        super().__init__()
        self.groups, self.dilation = groups, dilation
        self.conv = nn.Conv1d(inner, outer, 3, dilation=dilation, groups=groups)

    def forward(self, x):
        return tiled.run(x.contiguous(), self.conv.weight, self.conv.bias, self.dilation, self.groups)
