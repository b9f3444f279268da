# about = "The product is divided by the squared lengths: their root is left out."
# section = "mismatch"
# problem = "cosine_pairs"
# causes = ["root-omitted"]
# says = ["root|sqrt|squar|norm|length"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cos_src = r"""
#include <torch/extension.h>

__global__ void cosine_loss_kernel(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ y,
                                   float* __restrict__ loss, int n, int d, float margin) {
    __shared__ float dots[64], as[64], bs[64];
    const int row = blockIdx.x, t = threadIdx.x;
    float dot = 0.f, na = 0.f, nb = 0.f;
    for (int i = t; i < d; i += 64) {
        const float u = a[row * d + i], v = b[row * d + i];
        dot += u * v;
        na += u * u;
        nb += v * v;
    }
    dots[t] = dot;
    as[t] = na;
    bs[t] = nb;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (t < s) {
            dots[t] += dots[t + s];
            as[t] += as[t + s];
            bs[t] += bs[t + s];
        }
        __syncthreads();
    }
    if (t == 0) {
        const float c = dots[0] / fmaxf(as[0] * bs[0], 1e-12f);
        loss[row] = y[row] == 1.f ? 1.f - c : (y[row] == -1.f ? fmaxf(c - margin, 0.f) : 0.f);
    }
}

torch::Tensor cosine_loss(torch::Tensor a, torch::Tensor b, torch::Tensor y, double margin) {
    auto loss = torch::empty({a.size(0)}, a.options());
    cosine_loss_kernel<<<a.size(0), 64>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                          loss.data_ptr<float>(), a.size(0), a.size(1), (float)margin);
    return loss;
}
"""

cosine = load_inline(
    name="cosine_loss",
    cpp_sources="torch::Tensor cosine_loss(torch::Tensor a, torch::Tensor b, torch::Tensor y, double margin);",
    cuda_sources=cos_src,
    functions=["cosine_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, like):
        return cosine.cosine_loss(a.contiguous(), b.contiguous(), like.contiguous(), self.margin)
