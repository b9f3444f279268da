# about = "The weight decay goes straight to the parameter instead of into the gradient, and the step divides by the squares before this gradient."
# section = "mismatch"
# problem = "adagrad_clipped"
# faults = [{causes = ["weight-wrong-place", "activation-order", "wrong-decay", "operator-missing", "residual-wrong-place"], says = ["decay|order|weight|place|decoupled|regulari|penalty|gradient"]}, {causes = ["state-order", "state-not-updated", "scan-exclusive", "base-ignored", "activation-order"], says = ["before|after|order|old|previous|update|state|accumul|exclusive|squares"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <tuple>

__global__ void l2_kernel(const float* g, float* out, int n) {
    // a single warp
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) s += g[i] * g[i];
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x == 0) out[0] = sqrtf(s);
}

__global__ void step_kernel(float* __restrict__ p, const float* __restrict__ g, float* __restrict__ v, const float* __restrict__ norm,
                            int n, float lr, float max_norm, float wd, float eps) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float scale = fminf(max_norm / (norm[0] + 1e-6f), 1.f);
        const float grad = g[i] * scale;
        const float denom = sqrtf(v[i]) + eps;
        v[i] += grad * grad;
        p[i] -= lr * (grad / denom + wd * p[i]);
    }
}

std::tuple<torch::Tensor, torch::Tensor> adagrad(torch::Tensor p, torch::Tensor g, torch::Tensor v, double lr, double max_norm, double wd,
                                                 double eps) {
    auto norm = torch::empty({1}, p.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    l2_kernel<<<1, 32, 0, stream>>>(g.data_ptr<float>(), norm.data_ptr<float>(), g.numel());
    step_kernel<<<2, 96, 0, stream>>>(p.data_ptr<float>(), g.data_ptr<float>(), v.data_ptr<float>(), norm.data_ptr<float>(), p.numel(), lr,
                                      max_norm, wd, eps);
    return {p, v};
}
"""
ext = load_inline(
    name="adagrad_two_kernels",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> adagrad(torch::Tensor p, torch::Tensor g, torch::Tensor v, double lr, double max_norm, double wd, double eps);",
    cuda_sources=source,
    functions=["adagrad"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super().__init__()
        self.settings = rate / (1 + (step - 1) * rate_decay), greatest, weight_decay, eps

    def forward(self, p, grad, total):
        return ext.adagrad(p, grad.contiguous(), total, *self.settings)
