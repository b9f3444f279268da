# about = "Divides by the whole window at the edges too, where only what lies inside counts."
# section = "mismatch"
# problem = "avg_pool_valid_count"
# causes = ["pool-divisor", "wrong-divisor"]
# says = ["divis|divid|count|include_pad"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

avg_src = """
#include <torch/extension.h>

__global__ void avg_kernel(const float* in, float* out, int planes, int h, int w, int oh, int ow) {
    int gid = blockIdx.x * blockDim.x + threadIdx.x;
    if (gid >= planes * oh * ow) return;
    int p = gid / (oh * ow);
    int y = (gid / ow) % oh;
    int x = gid % ow;
    float total = 0.0f;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            int yy = y * 2 + dy;
            int xx = x * 2 + dx;
            bool inside = yy >= 0 && yy < h && xx >= 0 && xx < w;
            total += inside ? in[(p * h + yy) * w + xx] : 0.0f;
        }
    }
    out[gid] = total / 9.0f;
}

torch::Tensor avg_forward(torch::Tensor x) {
    auto sizes = x.sizes();
    int planes = sizes[0] * sizes[1];
    int h = sizes[2], w = sizes[3];
    int oh = (h + 2 - 3) / 2 + 1, ow = (w + 2 - 3) / 2 + 1;
    auto out = torch::empty({sizes[0], sizes[1], oh, ow}, x.options());
    int threads = 256;
    int blocks = (planes * oh * ow + threads - 1) / threads;
    avg_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), planes, h, w, oh, ow);
    return out;
}
"""

avg_module = load_inline(
    name="avg_module",
    cpp_sources="torch::Tensor avg_forward(torch::Tensor x);",
    cuda_sources=avg_src,
    functions=["avg_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return avg_module.avg_forward(x.contiguous())
