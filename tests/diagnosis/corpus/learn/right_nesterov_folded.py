# about = "Right: momentum folded into two factors, two elements per thread from both ends."
# section = "right"
# problem = "nesterov_step"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void folded(float* w, float* v, const float* g, int n, float lr, float mu, float wd) {
    const float near = lr * (1.f + mu), far = lr * mu * mu;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int half = (n + 1) / 2;
    if (t >= half) return;
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        int i = k == 0 ? t : n - 1 - t;
        if (k == 1 && i == t) break;
        float a = w[i], b = v[i];
        float d = fmaf(wd, a, g[i]);
        v[i] = fmaf(mu, b, d);
        w[i] = a - fmaf(near, d, far * b);
    }
}

void folded_step(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double mu, double wd) {
    int n = w.numel(), half = (n + 1) / 2;
    folded<<<(half + 159) / 160, 160>>>(w.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr<float>(), n, lr, mu, wd);
}
"""
ext = load_inline("folded_step", cpp_sources="void folded_step(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double mu, double wd);", cuda_sources=SRC, functions=["folded_step"])


class ModelNew(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def forward(self, weight, velocity, grad):
        ext.folded_step(weight, velocity, grad.contiguous(), self.lr, self.momentum, self.decay)
        return weight.clone(), velocity.clone()
