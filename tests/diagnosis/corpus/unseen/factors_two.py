# about = "Places are taken between corners of elements, not centres, and the two weights along the width are exchanged."
# section = "mismatch"
# problem = "bilinear_factors"
# faults = [{causes = ["wrong-coordinate", "align-corners"], says = ["half|centre|center|0\\.5|coordinate|place|corner|pixel"]}, {causes = ["weights-swapped"], says = ["weight|swap|exchang|1 - |mix"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <torch/extension.h>

__global__ void bilinear_rows(const float* x, float* y, int h, int w, int oh, int ow, float step_y, float step_x) {
    // one block per output row of one plane
    int oy = blockIdx.x;
    int plane = blockIdx.y;
    float sy = oy * step_y;
    int iy = (int)sy;
    int iy2 = iy + 1 < h ? iy + 1 : h - 1;
    float wy = sy - iy;
    const float* a = x + ((size_t)plane * h + iy) * w;
    const float* b = x + ((size_t)plane * h + iy2) * w;
    for (int ox = threadIdx.x; ox < ow; ox += blockDim.x) {
        float sx = ox * step_x;
        int ix = (int)sx;
        int ix2 = ix + 1 < w ? ix + 1 : w - 1;
        float wx = sx - ix;
        float left = (1.f - wy) * a[ix] + wy * b[ix];
        float right = (1.f - wy) * a[ix2] + wy * b[ix2];
        y[((size_t)plane * oh + oy) * ow + ox] = wx * left + (1.f - wx) * right;
    }
}

torch::Tensor bilinear(torch::Tensor x, double tall, double wide) {
    const int h = x.size(2), w = x.size(3);
    const int oh = static_cast<int>(h * tall), ow = static_cast<int>(w * wide);
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 grid(oh, x.size(0) * x.size(1));
    bilinear_rows<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow, (float)(1.0 / tall),
                                (float)(1.0 / wide));
    return y;
}
"""

ext = load_inline(
    name="bilinear_rows",
    cpp_sources="torch::Tensor bilinear(torch::Tensor x, double tall, double wide);",
    cuda_sources=cuda_code,
    functions=["bilinear"],
)


class ModelNew(nn.Module):
    def __init__(self, tall, wide):
        super().__init__()
        self.tall = float(tall)
        self.wide = float(wide)

    def forward(self, x):
        return ext.bilinear(x.contiguous(), self.tall, self.wide)
