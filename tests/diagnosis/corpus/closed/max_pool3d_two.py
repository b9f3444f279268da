# about = "The maximum begins at the smallest positive number, and the windows begin one too late in depth, without the padding."
# section = "mismatch"
# problem = "max_pool3d"
# faults = [{causes = ["pool-start-value", "reduction-start-value"], says = ["start|init|begin|FLT_MIN|zero"]}, {causes = ["padding-ignored", "padding-off-by-one"], says = ["pad"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pool3d_cuda = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void pool3d_kernel(const float* __restrict__ input, float* __restrict__ output, const int channels,
                              const int depth, const int height, const int width, const int out_d, const int out_h,
                              const int out_w, const int k, const int s, const int p) {
    const int ow = threadIdx.x;
    const int oh = blockIdx.x;
    const int od = blockIdx.y;
    const int nc = blockIdx.z;
    if (ow >= out_w) return;

    float m = FLT_MIN;
    for (int a = 0; a < k; a++) {
        const int z = od * s + a;
        if (z >= depth) break;
        for (int b = 0; b < k; b++) {
            const int y = oh * s - p + b;
            if (y < 0 || y >= height) continue;
            for (int c = 0; c < k; c++) {
                const int x = ow * s - p + c;
                if (x < 0 || x >= width) continue;
                m = max(m, input[((nc * depth + z) * height + y) * width + x]);
            }
        }
    }
    output[((nc * out_d + od) * out_h + oh) * out_w + ow] = m;
}

torch::Tensor pool3d(torch::Tensor x, int64_t k, int64_t s, int64_t p) {
    const int n = x.size(0), c = x.size(1), d = x.size(2), h = x.size(3), w = x.size(4);
    const int od = (d + 2 * p - k) / s + 1;
    const int oh = (h + 2 * p - k) / s + 1;
    const int ow = (w + 2 * p - k) / s + 1;
    auto out = torch::empty({n, c, od, oh, ow}, x.options());
    pool3d_kernel<<<dim3(oh, od, n * c), 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), c, d, h, w, od, oh, ow, k,
                                               s, p);
    return out;
}
"""

pool3d = load_inline(
    name="pool3d",
    cpp_sources="torch::Tensor pool3d(torch::Tensor x, int64_t k, int64_t s, int64_t p);",
    cuda_sources=pool3d_cuda,
    functions=["pool3d"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.k, self.s, self.p = kernel_size, stride, padding

    def forward(self, x):
        return pool3d.pool3d(x.contiguous(), self.k, self.s, self.p)
