# about = "The column sums begin anew in every band of 16 rows."
# section = "mismatch"
# problem = "integral_image"
# causes = ["scan-restarts", "partial-sums-not-combined"]
# says = ["16|tile|block|band|restart|carr|earlier"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#define BAND 16

__global__ void along_x(const float* x, float* y, int lines, int w) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    float s = 0.f;
    for (int i = 0; i < w; ++i) {
        s += x[(long)line * w + i];
        y[(long)line * w + i] = s;
    }
}

__global__ void along_y(float* y, int h, int w) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int first = blockIdx.y * BAND;
    if (col >= w) return;
    float* plane = y + (long)blockIdx.z * h * w;
    float s = 0.f;
    for (int r = first; r < min(first + BAND, h); ++r) {
        s += plane[(long)r * w + col];
        plane[(long)r * w + col] = s;
    }
}

torch::Tensor table(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int planes = x.size(0), h = x.size(1), w = x.size(2);
    along_x<<<(planes * h + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), planes * h, w);
    along_y<<<dim3((w + 31) / 32, (h + BAND - 1) / BAND, planes), 32>>>(y.data_ptr<float>(), h, w);
    return y;
}
"""

sat = load_inline(
    name="summed_area",
    cpp_sources="torch::Tensor table(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["table"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return sat.table(x.contiguous())
