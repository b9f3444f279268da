# about = "The grid is rounded down: elements past the last whole block are never written."
# section = "run"
# problem = "lion_step"
# causes = ["unwritten-output", "lost-last-block"]
# says = ["writ|grid|block|tail|last|partial|never"]
# stage = ["run", "verify", "integrity"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void lion(const float* p, const float* g, const float* m, float* p_out, float* m_out, int n,
                     float lr, float b1, float b2, float wd) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = g[i], mom = m[i];
    float c = b1 * mom + (1.f - b1) * grad;
    float s = c > 0.f ? 1.f : (c < 0.f ? -1.f : 0.f);
    p_out[i] = p[i] * (1.f - lr * wd) - lr * s;
    m_out[i] = b2 * mom + (1.f - b2) * grad;
}

std::vector<torch::Tensor> lion_update(torch::Tensor p, torch::Tensor g, torch::Tensor m, double lr, double b1, double b2, double wd) {
    auto p_out = torch::empty_like(p), m_out = torch::empty_like(m);
    int n = p.numel();
    lion<<<n / 64, 64>>>(p.data_ptr<float>(), g.data_ptr<float>(), m.data_ptr<float>(), p_out.data_ptr<float>(),
                                m_out.data_ptr<float>(), n, lr, b1, b2, wd);
    return {p_out, m_out};
}
"""

ext = load_inline("lion_update_module", ["std::vector<torch::Tensor> lion_update(torch::Tensor p, torch::Tensor g, torch::Tensor m, double lr, double b1, double b2, double wd);"], [SOURCE], functions=["lion_update"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, rate, beta_sign, beta_state, decay):
        super().__init__()
        self.options = (rate, beta_sign, beta_state, decay)

    def forward(self, parameter, gradient, momentum):
        moved, kept = ext.lion_update(parameter.contiguous(), gradient.contiguous(), momentum.contiguous(), *self.options)
        return moved, kept
