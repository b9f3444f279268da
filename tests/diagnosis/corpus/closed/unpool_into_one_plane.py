# about = "The place lacks the plane's offset: every plane's maxima land in the first one."
# section = "mismatch"
# problem = "max_unpool"
# causes = ["wrong-channel", "first-batch-only", "index-ignored", "global-race-between-blocks", "wrong-index-base", "not-deterministic"]
# says = ["plane|channel|batch|offset|first|same|block|race"]
# stage = ["run", "verify", "integrity"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void pool_kernel(const float* __restrict__ x, float* __restrict__ best, int* __restrict__ place, int n,
                            int h, int w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ow = w / 2, oh = h / 2;
    int c = i % ow, r = i / ow % oh, p = i / (ow * oh);
    int at = 2 * r * w + 2 * c;
    const float* plane = x + (size_t)p * h * w;
    int winner = at;
    if (plane[at + 1] > plane[winner]) winner = at + 1;
    if (plane[at + w] > plane[winner]) winner = at + w;
    if (plane[at + w + 1] > plane[winner]) winner = at + w + 1;
    best[i] = plane[winner];
    place[i] = winner;
}

__global__ void scatter_kernel(const float* __restrict__ best, const int* __restrict__ place, float* __restrict__ y,
                               int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[place[i]] = best[i];
}

torch::Tensor pool_unpool(torch::Tensor x) {
    int h = x.size(2), w = x.size(3);
    auto best = torch::empty({x.size(0), x.size(1), h / 2, w / 2}, x.options());
    auto place = torch::empty(best.sizes(), x.options().dtype(torch::kInt32));
    auto y = torch::zeros_like(x);
    int n = best.numel();
    int blocks = (n + 127) / 128;
    pool_kernel<<<blocks, 128>>>(x.data_ptr<float>(), best.data_ptr<float>(), place.data_ptr<int>(), n, h, w);
    scatter_kernel<<<blocks, 128>>>(best.data_ptr<float>(), place.data_ptr<int>(), y.data_ptr<float>(), n);
    return y;
}
"""

ext = load_inline(
    name="pool_unpool",
    cpp_sources="torch::Tensor pool_unpool(torch::Tensor x);",
    cuda_sources=source,
    functions=["pool_unpool"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.pool_unpool(x.contiguous())
