# about = "Takes the maximum of each window: the two signs of the reference were not followed."
# section = "mismatch"
# problem = "min_pool_ceil"
# causes = ["max-for-min", "sign-error", "operator-missing"]
# says = ["max|min|sign|negat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void min_pool(const float* x, float* y, int L, int OL, int k, int s, int p) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (o >= OL) return;
    int begin = max(o * s - p, 0);
    int end = min(o * s - p + k, L);
    float m = -INFINITY;
    for (int i = begin; i < end; ++i) m = fmaxf(m, x[row * L + i]);
    y[row * OL + o] = m;
}

torch::Tensor min_pool1d(torch::Tensor x, int64_t k, int64_t s, int64_t p) {
    int rows = x.size(0) * x.size(1), L = x.size(2);
    int OL = (L + 2 * p - k + s - 1) / s + 1;
    if ((OL - 1) * s >= L + p) --OL;
    auto y = torch::empty({x.size(0), x.size(1), OL}, x.options());
    dim3 grid((OL + 31) / 32, rows);
    min_pool<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), L, OL, k, s, p);
    return y;
}
"""

cpp_source = "torch::Tensor min_pool1d(torch::Tensor x, int64_t k, int64_t s, int64_t p);"

ext = load_inline(
    name="min_pool1d_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["min_pool1d"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.min_pool1d(x.contiguous(), 4, 3, 1)
