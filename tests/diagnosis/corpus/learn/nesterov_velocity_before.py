# about = "The look-ahead takes the velocity from before its update."
# section = "mismatch"
# problem = "nesterov_step"
# causes = ["state-order"]
# says = ["velocity|before|old|updat|order"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

struct Hyper { float lr, mu, wd; };

__global__ void update_weight(float* w, const float* v, const float* g, Hyper h, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float d = g[i] + h.wd * w[i];
        w[i] = w[i] - h.lr * (d + h.mu * v[i]);
    }
}

__global__ void make_step(const float* w, const float* g, float* d, Hyper h, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) d[i] = g[i] + h.wd * w[i];
}

__global__ void update_velocity(float* v, const float* d, Hyper h, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v[i] = h.mu * v[i] + d[i];
}

void optimise(torch::Tensor w, torch::Tensor v, torch::Tensor g, float lr, float mu, float wd) {
    Hyper h{lr, mu, wd};
    int n = w.numel();
    auto d = torch::empty_like(w);
    make_step<<<4, 128>>>(w.data_ptr<float>(), g.data_ptr<float>(), d.data_ptr<float>(), h, n);
    update_weight<<<4, 128>>>(w.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr<float>(), h, n);
    update_velocity<<<4, 128>>>(v.data_ptr<float>(), d.data_ptr<float>(), h, n);
}
"""
cpp_src = "void optimise(torch::Tensor w, torch::Tensor v, torch::Tensor g, float lr, float mu, float wd);"
optim = load_inline(name="optimise_ext", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["optimise"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.hyper = (lr, momentum, decay)

    def forward(self, weight, velocity, grad):
        optim.optimise(weight, velocity, grad.contiguous(), *self.hyper)
        return weight.clone(), velocity.clone()
