# about = "The place within an output plane is taken apart with height for width."
# section = "mismatch"
# problem = "avg_pool3d"
# causes = ["layout-misread", "coordinates-swapped", "wrong-axis"]
# says = ["layout|order|swap|exchang|height|width|transpos|dim"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void avg3d(const float* __restrict__ x, float* __restrict__ y, int D, int H, int W, int OD, int OH, int OW) {
    const int per_volume = OD * OH * OW;
    const float* volume = x + (size_t)blockIdx.y * D * H * W;
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= per_volume) return;
    int od = o / (OH * OW);
    int rest = o - od * OH * OW;
    int oh = rest % OH;
    int ow = rest / OH;
    float sum = 0.f;
    for (int d = od * 2; d < od * 2 + 2; ++d) {
        for (int h = oh * 2 - 1; h <= oh * 2 + 1; ++h) {
            if (h < 0 || h >= H) continue;
            for (int w = ow * 2 - 1; w <= ow * 2 + 1; ++w) {
                if (w < 0 || w >= W) continue;
                sum += volume[(d * H + h) * W + w];
            }
        }
    }
    y[(size_t)blockIdx.y * per_volume + o] = sum * (1.f / 18.f);
}

torch::Tensor avg3d_forward(torch::Tensor x) {
    int D = x.size(2), H = x.size(3), W = x.size(4);
    int OD = (D - 2) / 2 + 1, OH = (H + 2 - 3) / 2 + 1, OW = (W + 2 - 3) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), OD, OH, OW}, x.options());
    dim3 grid((OD * OH * OW + 63) / 64, x.size(0) * x.size(1));
    avg3d<<<grid, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), D, H, W, OD, OH, OW);
    return y;
}
"""

avg3d = load_inline(
    name="avg3d_ext",
    cpp_sources="torch::Tensor avg3d_forward(torch::Tensor x);",
    cuda_sources=source,
    functions=["avg3d_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return avg3d.avg3d_forward(x.contiguous())
