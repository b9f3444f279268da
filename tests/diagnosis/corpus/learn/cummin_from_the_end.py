# about = "Scans each row from its end."
# section = "mismatch"
# problem = "cummin_values"
# causes = ["scan-reversed"]
# says = ["revers|end|backward|direction"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
__global__ void cummin_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (long)row * n;
    float* out = y + (long)row * n;
    float carry = INFINITY;
    int tiles = (n + 31) / 32;
    for (int tile = tiles - 1; tile >= 0; --tile) {
        int i = tile * 32 + lane;
        float v = i < n ? in[i] : INFINITY;
        for (int d = 1; d < 32; d <<= 1) {
            float w = __shfl_down_sync(0xffffffffu, v, d);
            if (lane + d < 32) v = fminf(v, w);
        }
        v = fminf(v, carry);
        if (i < n) out[i] = v;
        carry = __shfl_sync(0xffffffffu, v, 0);
    }
}

torch::Tensor cummin_last(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.size(-1);
    int rows = x.numel() / n;
    cummin_rows<<<(rows + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, n);
    return y;
}
"""

ext = load_inline(
    name="cummin_last",
    cpp_sources="torch::Tensor cummin_last(torch::Tensor x);",
    cuda_sources=code,
    functions=["cummin_last"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cummin_last(x.contiguous())
