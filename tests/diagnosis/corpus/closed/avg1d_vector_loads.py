# about = "Loads four elements at once from addresses that are not multiples of sixteen bytes."
# section = "run"
# problem = "avg_pool1d"
# causes = ["misaligned-access"]
# says = ["align"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

avg1d_cuda = r"""
#include <torch/extension.h>

// Inner windows are one vector load each; those at the ends go element by element.
__global__ void avg1d_kernel(const float* __restrict__ x, float* __restrict__ y, int lines, int len, int out_len) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lines * out_len) return;
    int o = i % out_len;
    const float* line = x + (i / out_len) * len;
    int start = o * 2 - 1;
    float sum = 0.f;
    if (start >= 0 && start + 4 <= len) {
        float4 v = *reinterpret_cast<const float4*>(line + start);
        sum = (v.x + v.y) + (v.z + v.w);
    } else {
        for (int k = 0; k < 4; ++k) {
            int p = start + k;
            if (p >= 0 && p < len) sum += line[p];
        }
    }
    y[i] = 0.25f * sum;
}

torch::Tensor avg1d(torch::Tensor x) {
    int lines = x.size(0) * x.size(1), len = x.size(2);
    int out_len = (len + 2 - 4) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_len}, x.options());
    int n = lines * out_len;
    avg1d_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), lines, len, out_len);
    return y;
}
"""

avg1d_ext = load_inline(
    name="avg1d_ext",
    cpp_sources="torch::Tensor avg1d(torch::Tensor x);",
    cuda_sources=avg1d_cuda,
    functions=["avg1d"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return avg1d_ext.avg1d(x.contiguous())
