# about = "The root of the mean of absolute values: a mean for the sum, no squares."
# section = "mismatch"
# problem = "lp_pool"
# faults = [{causes = ["mean-for-sum", "pool-divisor", "wrong-divisor"], says = ["mean|divis|divid|count|factor"]}, {causes = ["square-omitted"], says = ["squar|abs"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lp_source = """
#include <torch/extension.h>
#include <math.h>

__global__ void lp_pool_kernel(const float* x, float* y, int n, int h, int w, int oh, int ow, int k, int s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int xo = i % ow;
    int yo = (i / ow) % oh;
    int p = i / (oh * ow);
    float sum = 0.0f;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            sum += fabsf(x[(p * h + yo * s + a) * w + xo * s + b]);
        }
    }
    y[i] = sqrtf(sum / (float)(k * k));
}

torch::Tensor lp_pool(torch::Tensor x) {
    const int k = 3;
    const int s = 2;
    int h = x.size(2);
    int w = x.size(3);
    int oh = (h - k) / s + 1;
    int ow = (w - k) / s + 1;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int n = y.numel();
    int threads = 128;
    lp_pool_kernel<<<(n + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, h, w, oh, ow,
                                                             k, s);
    return y;
}
"""

lp_pool = load_inline(
    name="lp_pool",
    cpp_sources="torch::Tensor lp_pool(torch::Tensor x);",
    cuda_sources=lp_source,
    functions=["lp_pool"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lp_pool = lp_pool

    def forward(self, x):
        return self.lp_pool.lp_pool(x.contiguous())
