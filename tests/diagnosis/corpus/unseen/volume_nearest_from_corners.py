# about = "The plain nearest element, by corners: half an element is not added before the factor."
# section = "mismatch"
# problem = "nearest_exact_volume"
# causes = ["wrong-coordinate", "wrong-rounding", "interpolation-mode", "align-corners"]
# says = ["half|0\\.5|centre|center|coordinate|place|round|floor|nearest|exact|corner"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="volume_nearest",
    cpp_sources="torch::Tensor volume_nearest(torch::Tensor x, int64_t d, int64_t h, int64_t w);",
    cuda_sources=r"""
#include <torch/extension.h>

__global__ void nearest3d(const float* __restrict__ src, float* __restrict__ dst, int n, int id, int ih, int iw,
                          int od, int oh, int ow) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int w = i % ow;
        int h = (i / ow) % oh;
        int d = (i / (ow * oh)) % od;
        int plane = i / (ow * oh * od);
        int sw = min((int)(w * ((float)iw / ow)), iw - 1);
        int sh = min((int)(h * ((float)ih / oh)), ih - 1);
        int sd = min((int)(d * ((float)id / od)), id - 1);
        dst[i] = 0.5f * src[((plane * id + sd) * ih + sh) * iw + sw];
    }
}

torch::Tensor volume_nearest(torch::Tensor x, int64_t d, int64_t h, int64_t w) {
    auto y = torch::empty({x.size(0), x.size(1), d, h, w}, x.options());
    const int n = y.numel();
    const int threads = 192;
    const int blocks = std::min(16, (n + threads - 1) / threads);
    nearest3d<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, x.size(2), x.size(3), x.size(4), d, h,
                                   w);
    return y;
}
""",
    functions=["volume_nearest"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return ext.volume_nearest(x.contiguous(), *self.size)
