# about = "The mean logarithm is returned without its minus, and each lane looks at one sample only, so those from the 33rd on are lost."
# section = "mismatch"
# problem = "supervised_contrast"
# faults = [{causes = ["sign-error", "operator-missing"], says = ["sign|negat|minus|opposite"]}, {causes = ["lost-lanes", "lost-last-block", "hard-coded-size", "partial-sums-not-combined", "last-element-left-out"], says = ["32|warp|lane|block|tile|stride|sample|size|not all|last|tail|part|lost"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__inline__ __device__ float warp_sum(float v) {
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask);
    return v;
}

__global__ void supcon_warp(const float* x, const int64_t* y, float* loss, int n, int w, float t) {
    // one warp per anchor
    const int i = blockIdx.x * blockDim.y + threadIdx.y;
    const int j = threadIdx.x;
    if (i >= n) return;
    float ii = 0.f, jj = 0.f, ij = 0.f;
    for (int d = 0; d < w; ++d) {
        const float a = x[i * w + d], b = j < n ? x[j * w + d] : 0.f;
        ii += a * a;
        jj += b * b;
        ij += a * b;
    }
    const bool other = j < n && j != i;
    const float s = other ? ij / (fmaxf(sqrtf(ii), 1e-12f) * fmaxf(sqrtf(jj), 1e-12f) * t) : 0.f;
    const float lse = logf(warp_sum(other ? expf(s) : 0.f));
    const bool pos = other && y[i] == y[j];
    const float total = warp_sum(pos ? s - lse : 0.f);
    const float count = warp_sum(pos ? 1.f : 0.f);
    if (j == 0) loss[i] = total / fmaxf(count, 1.f);
}

torch::Tensor supcon(torch::Tensor x, torch::Tensor y, double t) {
    const int n = x.size(0);
    auto loss = torch::empty({n}, x.options());
    supcon_warp<<<(n + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<int64_t>(), loss.data_ptr<float>(), n, x.size(1), t);
    return loss;
}
"""
m = load_inline(
    name="supcon_warp",
    cpp_sources="torch::Tensor supcon(torch::Tensor x, torch::Tensor y, double t);",
    cuda_sources=source,
    functions=["supcon"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        return m.supcon(features.contiguous(), labels.contiguous(), self.temperature)
