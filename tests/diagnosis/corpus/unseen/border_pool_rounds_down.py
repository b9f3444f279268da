# about = "The output's sizes are rounded down; the reference rounds up."
# section = "mismatch"
# problem = "avg_pool3d_border"
# causes = ["wrong-shape", "output-size", "wrong-rounding"]
# says = ["shape|size|ceil|round|rows"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

struct Pool {
    int in[3], out[3], window[3], stride[3], padding[3];
};

__global__ void pool3d(const float* x, float* y, Pool p, int planes) {
    int per_plane = p.out[0] * p.out[1] * p.out[2];
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= planes * per_plane) return;
    int o[3] = {id / (p.out[1] * p.out[2]) % p.out[0], id / p.out[2] % p.out[1], id % p.out[2]};
    const float* src = x + (size_t)(id / per_plane) * p.in[0] * p.in[1] * p.in[2];
    int lo[3], hi[3];
    for (int k = 0; k < 3; ++k) {
        int s = o[k] * p.stride[k] - p.padding[k];
        lo[k] = max(s, 0);
        hi[k] = min(s + p.window[k], p.in[k]);
    }
    float sum = 0.f;
    for (int d = lo[0]; d < hi[0]; ++d)
        for (int h = lo[1]; h < hi[1]; ++h)
            for (int w = lo[2]; w < hi[2]; ++w) sum += src[(d * p.in[1] + h) * p.in[2] + w];
    y[id] = sum / ((hi[0] - lo[0]) * (hi[1] - lo[1]) * (hi[2] - lo[2]));
}

torch::Tensor avg_pool3d(torch::Tensor x, std::vector<int64_t> window, std::vector<int64_t> stride,
                         std::vector<int64_t> padding) {
    Pool p;
    for (int k = 0; k < 3; ++k) {
        p.in[k] = x.size(2 + k);
        p.window[k] = window[k];
        p.stride[k] = stride[k];
        p.padding[k] = padding[k];
        p.out[k] = (p.in[k] + 2 * p.padding[k] - p.window[k]) / p.stride[k] + 1;
    }
    auto y = torch::empty({x.size(0), x.size(1), p.out[0], p.out[1], p.out[2]}, x.options());
    int planes = x.size(0) * x.size(1), n = y.numel();
    pool3d<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), p, planes);
    return y;
}
"""

ext = load_inline(
    name="avg_pool3d_ext",
    cpp_sources="torch::Tensor avg_pool3d(torch::Tensor x, std::vector<int64_t> window, std::vector<int64_t> stride, std::vector<int64_t> padding);",
    cuda_sources=cuda_src,
    functions=["avg_pool3d"],
)


class ModelNew(nn.Module):
    def __init__(self, window, stride, padding):
        super().__init__()
        self.window, self.stride, self.padding = list(window), list(stride), list(padding)

    def forward(self, x):
        return ext.avg_pool3d(x.contiguous(), self.window, self.stride, self.padding)
