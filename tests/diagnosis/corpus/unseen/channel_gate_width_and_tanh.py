# about = "The softmax runs along the width, and the gate is a tanh."
# section = "mismatch"
# problem = "channel_attention_gate"
# faults = [{causes = ["softmax-wrong-axis", "wrong-axis", "statistics-over-wrong-axes"], says = ["dim|axis|axes|along|width|last"]}, {causes = ["wrong-activation"], says = ["tanh|sigmoid|activation|gate"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="gated_softmax",
    cpp_sources="torch::Tensor gated(torch::Tensor x, torch::Tensor gate, double temperature);",
    cuda_sources=r"""
__global__ void gated_kernel(const float* x, const float* gate, float* y, int rows, int n, float inverse) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += (long)row * n;
    gate += (long)row * n;
    y += (long)row * n;
    float top = -INFINITY, total = 0.f;
    for (int i = lane; i < n; i += 32) top = fmaxf(top, x[i] * inverse);
    for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    for (int i = lane; i < n; i += 32) total += expf(x[i] * inverse - top);
    for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffff, total, o);
    for (int i = lane; i < n; i += 32) y[i] = expf(x[i] * inverse - top) / total * tanhf(gate[i]);
}

torch::Tensor gated(torch::Tensor x, torch::Tensor gate, double temperature) {
    auto y = torch::empty_like(x);
    int n = x.size(-1), rows = x.numel() / n;
    gated_kernel<<<(rows + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), gate.data_ptr<float>(), y.data_ptr<float>(),
        rows, n, 1.f / (float)temperature);
    return y;
}
""",
    functions=["gated"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x, gate):
        return ext.gated(x.contiguous(), gate.contiguous(), self.temperature)
