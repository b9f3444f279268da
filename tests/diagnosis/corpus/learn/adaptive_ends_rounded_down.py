# about = "A bin's end is rounded down, so that bins do not overlap and lose a row or column."
# section = "mismatch"
# problem = "adaptive_avg"
# causes = ["pool-window", "wrong-rounding", "last-element-left-out"]
# says = ["ceil|round|end|window|overlap|bin"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

adaptive_src = r"""
#include <torch/extension.h>

__device__ __forceinline__ int bin_edge(int i, int in, int out) { return i * in / out; }

__global__ void adaptive_avg_kernel(const float* __restrict__ x, float* __restrict__ y, int total, int H, int W, int OH,
                                    int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    const float* plane = x + (size_t)(idx / (OH * OW)) * H * W;
    int hs = bin_edge(oh, H, OH), he = bin_edge(oh + 1, H, OH);
    int ws = bin_edge(ow, W, OW), we = bin_edge(ow + 1, W, OW);
    float sum = 0.f;
    for (int h = hs; h < he; ++h)
        for (int w = ws; w < we; ++w) sum += plane[h * W + w];
    y[idx] = sum / ((he - hs) * (we - ws));
}

torch::Tensor adaptive_avg(torch::Tensor x, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int total = y.numel();
    adaptive_avg_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, x.size(2),
                                                      x.size(3), oh, ow);
    return y;
}
"""

adaptive = load_inline(
    name="adaptive_avg_ext",
    cpp_sources="torch::Tensor adaptive_avg(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=adaptive_src,
    functions=["adaptive_avg"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return adaptive.adaptive_avg(x.contiguous(), self.size[0], self.size[1])
