# about = "The place is an integer quotient: its fraction is cut off and every weight is zero."
# section = "mismatch"
# problem = "linear_resize"
# causes = ["truncated-to-integer", "interpolation-mode", "wrong-coordinate"]
# says = ["integer|fraction|trunc|nearest|cut|weight"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

linear_src = """
#include <torch/extension.h>

__global__ void linear_interp_kernel(const float* x, float* y, int lines, int len, int out_len) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lines * out_len) {
        int line = i / out_len;
        int o = i - line * out_len;
        float pos = o * (len - 1) / (out_len - 1);
        int lo = (int)floorf(pos);
        int hi = lo + 1 < len ? lo + 1 : len - 1;
        float frac = pos - lo;
        const float* p = x + line * len;
        y[i] = p[lo] + frac * (p[hi] - p[lo]);
    }
}

torch::Tensor linear_interp(torch::Tensor x, int64_t out_len) {
    int lines = x.size(0) * x.size(1);
    int len = x.size(2);
    auto y = torch::empty({x.size(0), x.size(1), out_len}, x.options());
    int total = lines * out_len;
    int threads = 256;
    linear_interp_kernel<<<(total + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), lines,
                                                                       len, out_len);
    return y;
}
"""

linear_interp = load_inline(
    name="linear_interp",
    cpp_sources="torch::Tensor linear_interp(torch::Tensor x, int64_t out_len);",
    cuda_sources=linear_src,
    functions=["linear_interp"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.linear_interp = linear_interp

    def forward(self, x):
        return self.linear_interp.linear_interp(x.contiguous(), self.size)
