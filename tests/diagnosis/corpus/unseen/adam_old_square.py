# about = "The step divides by the root of the second moment as it was before its update."
# section = "mismatch"
# problem = "adam_step"
# causes = ["state-order"]
# says = ["before|after|old|order|update"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

adam_src = r"""
#include <torch/extension.h>
#include <cmath>

struct Hyper { float rate, first, second, eps, fix1, fix2; };

__global__ void adam_kernel(float* __restrict__ p, const float* __restrict__ grad, float* __restrict__ m,
                            float* __restrict__ v, Hyper k, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const float g = grad[i];
        const float square = v[i];
        const float mean = k.first * m[i] + (1.f - k.first) * g;
        m[i] = mean;
        v[i] = k.second * square + (1.f - k.second) * g * g;
        const float root = sqrtf(square / k.fix2) + k.eps;
        p[i] -= k.rate * (mean / k.fix1) / root;
    }
}

void adam(torch::Tensor p, torch::Tensor grad, torch::Tensor m, torch::Tensor v, double rate, double first,
          double second, double eps, int64_t step) {
    Hyper k;
    k.rate = rate;
    k.first = first;
    k.second = second;
    k.eps = eps;
    k.fix1 = 1.0 - std::pow(first, (double)step);
    k.fix2 = 1.0 - std::pow(second, (double)step);
    const int n = p.numel();
    adam_kernel<<<4, 128>>>(p.data_ptr<float>(), grad.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(), k,
                            n);
}
"""

adam = load_inline(
    name="adam",
    cpp_sources="void adam(torch::Tensor p, torch::Tensor grad, torch::Tensor m, torch::Tensor v, double rate, double first, double second, double eps, int64_t step);",
    cuda_sources=adam_src,
    functions=["adam"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, first, second, eps, step):
        super().__init__()
        self.hyper = (rate, first, second, eps, step)

    def forward(self, p, grad, m, v):
        adam.adam(p, grad.contiguous(), m, v, *self.hyper)
        return p, m, v
