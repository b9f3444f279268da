# about = "The step enters the velocity with the factor 1 - momentum, and the weight decay has the wrong sign."
# section = "mismatch"
# problem = "nesterov_step"
# faults = [{causes = ["wrong-decay", "scale-doubled", "wrong-divisor"], says = ["momentum|damp|factor|scale|1 -|0\\.2"]}, {causes = ["sign-error"], says = ["sign|negat|minus|subtract"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__device__ __forceinline__ void one(float& w, float& v, float g, float lr, float mu, float wd) {
    float d = g - wd * w;
    v = mu * v + (1.f - mu) * d;
    w -= lr * (d + mu * v);
}

__global__ void nesterov_kernel(float* w, float* v, const float* g, int n, float lr, float mu, float wd) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 a = *reinterpret_cast<float4*>(w + i);
        float4 b = *reinterpret_cast<float4*>(v + i);
        float4 c = *reinterpret_cast<const float4*>(g + i);
        one(a.x, b.x, c.x, lr, mu, wd);
        one(a.y, b.y, c.y, lr, mu, wd);
        one(a.z, b.z, c.z, lr, mu, wd);
        one(a.w, b.w, c.w, lr, mu, wd);
        *reinterpret_cast<float4*>(w + i) = a;
        *reinterpret_cast<float4*>(v + i) = b;
    } else {
        for (int k = i; k < n; ++k) one(w[k], v[k], g[k], lr, mu, wd);
    }
}

void nesterov(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double mu, double wd) {
    int n = w.numel(), quads = (n + 3) / 4;
    nesterov_kernel<<<(quads + 63) / 64, 64>>>(w.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr<float>(), n, lr, mu, wd);
}
"""
ext = load_inline("nesterov", cpp_sources="void nesterov(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double mu, double wd);", cuda_sources=SRC, functions=["nesterov"])


class ModelNew(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def forward(self, weight, velocity, grad):
        ext.nesterov(weight, velocity, grad.contiguous(), self.lr, self.momentum, self.decay)
        return weight.clone(), velocity.clone()
