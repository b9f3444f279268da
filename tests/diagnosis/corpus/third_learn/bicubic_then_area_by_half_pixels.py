# about = "The places are computed by half pixels, as without align_corners."
# section = "mismatch"
# problem = "bicubic_then_area"
# causes = ["align-corners", "wrong-coordinate"]
# says = ["corner|half|coordinate|align|place|position"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__device__ float cubic1(float t) { const float A = -0.75f; return ((A + 2) * t - (A + 3)) * t * t + 1; }
__device__ float cubic2(float t) { const float A = -0.75f; return ((A * t - 5 * A) * t + 8 * A) * t - 4 * A; }

__global__ void bicubic_kernel(const float* x, float* y, int planes, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * OH * OW) return;
    int ox = idx % OW, oy = (idx / OW) % OH, p = idx / (OW * OH);
    float sy = (oy + 0.5f) * ((float)H / OH) - 0.5f;
    float sx = (ox + 0.5f) * ((float)W / OW) - 0.5f;
    int iy = (int)floorf(sy), ix = (int)floorf(sx);
    float ty = sy - iy, tx = sx - ix;
    float wy[4] = {cubic2(ty + 1), cubic1(ty), cubic1(1 - ty), cubic2(2 - ty)};
    float wx[4] = {cubic2(tx + 1), cubic1(tx), cubic1(1 - tx), cubic2(2 - tx)};
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        int yy = min(max(iy - 1 + i, 0), H - 1);
        float row = 0.0f;
        for (int j = 0; j < 4; j++) {
            int xx = min(max(ix - 1 + j, 0), W - 1);
            row += wx[j] * x[(p * H + yy) * W + xx];
        }
        sum += wy[i] * row;
    }
    y[idx] = fminf(fmaxf(sum, -1.0f), 1.5f);
}

__global__ void area_kernel(const float* x, float* y, int planes, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * OH * OW) return;
    int ox = idx % OW, oy = (idx / OW) % OH, p = idx / (OW * OH);
    int y0 = oy * H / OH, y1 = ((oy + 1) * H + OH - 1) / OH;
    int x0 = ox * W / OW, x1 = ((ox + 1) * W + OW - 1) / OW;
    float sum = 0.0f;
    for (int i = y0; i < y1; i++)
        for (int j = x0; j < x1; j++) sum += x[(p * H + i) * W + j];
    y[idx] = sum / ((y1 - y0) * (x1 - x0));
}

std::vector<torch::Tensor> resize(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), planes = N * C;
    auto up = torch::empty({N, C, LH, LW}, x.options());
    auto low = torch::empty({N, C, SH, SW}, x.options());
    bicubic_kernel<<<(planes * LH * LW + 255) / 256, 256>>>(x.data_ptr<float>(), up.data_ptr<float>(), planes, H, W, LH, LW);
    area_kernel<<<(planes * SH * SW + 255) / 256, 256>>>(up.data_ptr<float>(), low.data_ptr<float>(), planes, LH, LW, SH, SW);
    return {up, low};
}
"""

resize = load_inline(
    name="bicubic_area",
    cpp_sources="std::vector<torch::Tensor> resize(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW);",
    cuda_sources=cuda_source,
    functions=["resize"],
)


class ModelNew(nn.Module):
    def __init__(self, large, small):
        super().__init__()
        self.large = large
        self.small = small

    def forward(self, x):
        up, low = resize.resize(x.contiguous(), self.large[0], self.large[1], self.small[0], self.small[1])
        return up, low
