# about = "Weight decay is not scaled by the rate, and the momentum's two shares are exchanged."
# section = "mismatch"
# problem = "lion_step"
# faults = [{causes = ["scale-missing", "wrong-decay", "wrong-coefficient", "operator-missing", "wrong-divisor"], says = ["rate|scale|factor|decay|coefficient|multipl"]}, {causes = ["wrong-decay", "weights-swapped", "operands-swapped"], says = ["share|swap|exchang|decay|weight|momentum|1 -|complement"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="lion_update_cuda",
    cpp_sources="std::vector<torch::Tensor> lion_update(torch::Tensor p, torch::Tensor g, torch::Tensor m, double lr, double b1, double b2, double wd);",
    cuda_sources=r"""
__global__ void lion(const float* p, const float* g, const float* m, float* p_out, float* m_out, int n,
                     float lr, float b1, float b2, float wd) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = g[i], mom = m[i];
    float c = b1 * mom + (1.f - b1) * grad;
    float s = c > 0.f ? 1.f : (c < 0.f ? -1.f : 0.f);
    p_out[i] = p[i] * (1.f - wd) - lr * s;
    m_out[i] = (1.f - b2) * mom + b2 * grad;
}

std::vector<torch::Tensor> lion_update(torch::Tensor p, torch::Tensor g, torch::Tensor m, double lr, double b1, double b2, double wd) {
    auto p_out = torch::empty_like(p), m_out = torch::empty_like(m);
    int n = p.numel();
    lion<<<(n + 63) / 64, 64>>>(p.data_ptr<float>(), g.data_ptr<float>(), m.data_ptr<float>(), p_out.data_ptr<float>(),
                                m_out.data_ptr<float>(), n, lr, b1, b2, wd);
    return {p_out, m_out};
}
""",
    functions=["lion_update"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, beta_sign, beta_state, decay):
        super().__init__()
        self.options = (rate, beta_sign, beta_state, decay)

    def forward(self, parameter, gradient, momentum):
        moved, kept = ext.lion_update(parameter.contiguous(), gradient.contiguous(), momentum.contiguous(), *self.options)
        return moved, kept
