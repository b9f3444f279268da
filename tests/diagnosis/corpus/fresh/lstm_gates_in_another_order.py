# about = "The gates are read as input, forget, output, candidate; the reference has the candidate third."
# section = "mismatch"
# problem = "lstm_peephole"
# causes = ["layout-misread", "operands-swapped", "wrong-channel", "coordinates-swapped", "outputs-swapped"]
# says = ["order|swap|exchang|gate|layout|chunk|operand|channel"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="peephole_step_cuda",
    cpp_sources="std::vector<torch::Tensor> peephole_step(torch::Tensor x, torch::Tensor h, torch::Tensor c, torch::Tensor wx, torch::Tensor wh, torch::Tensor bias, torch::Tensor peep);",
    cuda_sources=r"""
__device__ float sigmoid(float v) { return 1.f / (1.f + expf(-v)); }

__global__ void lstm_step(const float* __restrict__ x, const float* __restrict__ h, const float* __restrict__ c,
                          const float* __restrict__ wx, const float* __restrict__ wh, const float* __restrict__ bias,
                          const float* __restrict__ peep, float* __restrict__ h_out, float* __restrict__ c_out, int I, int H) {
    int b = blockIdx.x;
    for (int u = threadIdx.x; u < H; u += blockDim.x) {
        float gate[4];
        for (int k = 0; k < 4; ++k) {
            int row = k * H + u;
            float acc = bias[row];
            for (int j = 0; j < I; ++j) acc += x[b * I + j] * wx[row * I + j];
            for (int j = 0; j < H; ++j) acc += h[b * H + j] * wh[row * H + j];
            gate[k] = acc;
        }
        float old = c[b * H + u];
        float in = sigmoid(gate[0] + peep[u] * old);
        float forget = sigmoid(gate[1] + peep[H + u] * old);
        float cell = forget * old + in * tanhf(gate[3]);
        float out = sigmoid(gate[2] + peep[2 * H + u] * cell);
        h_out[b * H + u] = out * tanhf(cell);
        c_out[b * H + u] = cell;
    }
}

std::vector<torch::Tensor> peephole_step(torch::Tensor x, torch::Tensor h, torch::Tensor c, torch::Tensor wx, torch::Tensor wh, torch::Tensor bias, torch::Tensor peep) {
    auto h_out = torch::empty_like(h), c_out = torch::empty_like(c);
    lstm_step<<<x.size(0), 32>>>(x.data_ptr<float>(), h.data_ptr<float>(), c.data_ptr<float>(), wx.data_ptr<float>(), wh.data_ptr<float>(),
        bias.data_ptr<float>(), peep.data_ptr<float>(), h_out.data_ptr<float>(), c_out.data_ptr<float>(), x.size(1), h.size(1));
    return {h_out, c_out};
}
""",
    functions=["peephole_step"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(4 * hidden, inner) * 0.4)
        self.w_h = nn.Parameter(torch.randn(4 * hidden, hidden) * 0.4)
        self.bias = nn.Parameter(torch.randn(4 * hidden) * 0.2)
        self.peep = nn.Parameter(torch.randn(3, hidden) * 0.5)

    def forward(self, x, h, c):
        h, c = ext.peephole_step(x.contiguous(), h.contiguous(), c.contiguous(), self.w_x, self.w_h, self.bias, self.peep)
        return h, c
