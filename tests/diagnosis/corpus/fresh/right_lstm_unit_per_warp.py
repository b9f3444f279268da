# about = "A warp sums the four gates of a unit side by side; both results lie in one tensor."
# section = "right"
# problem = "lstm_peephole"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// A warp per unit: lanes 8k..8k+7 sum gate k, and the four sums meet by shuffles. tanh by way of the sigmoid.
__device__ __forceinline__ float sig(float v) { return v >= 0.f ? 1.f / (1.f + expf(-v)) : expf(v) / (1.f + expf(v)); }
__device__ __forceinline__ float tanh_by_sigmoid(float v) { return 2.f * sig(2.f * v) - 1.f; }

__global__ void unit_per_warp(const float* x, const float* h, const float* c, const float* wx, const float* wh, const float* bias,
                              const float* peep, float* h_new, float* c_new, int I, int H) {
    int u = blockIdx.x, b = blockIdx.y, lane = threadIdx.x, k = lane >> 3;
    int row = k * H + u;
    float acc = (lane & 7) == 0 ? bias[row] : 0.f;
    for (int j = lane & 7; j < I + H; j += 8)
        acc += j < I ? x[b * I + j] * wx[row * I + j] : h[b * H + j - I] * wh[row * H + j - I];
    for (int o = 4; o; o >>= 1) acc += __shfl_xor_sync(0xffffffffu, acc, o);
    float gi = __shfl_sync(0xffffffffu, acc, 0), gf = __shfl_sync(0xffffffffu, acc, 8);
    float gg = __shfl_sync(0xffffffffu, acc, 16), go = __shfl_sync(0xffffffffu, acc, 24);
    if (lane) return;
    float old = c[b * H + u];
    float cell = sig(gf + peep[H + u] * old) * old + sig(gi + peep[u] * old) * tanh_by_sigmoid(gg);
    c_new[b * H + u] = cell;
    h_new[b * H + u] = sig(go + peep[2 * H + u] * cell) * tanh_by_sigmoid(cell);
}

std::vector<torch::Tensor> step(torch::Tensor x, torch::Tensor h, torch::Tensor c, torch::Tensor wx, torch::Tensor wh, torch::Tensor bias, torch::Tensor peep) {
    auto both = torch::empty({2, h.size(0), h.size(1)}, h.options());
    float* p = both.data_ptr<float>();
    unit_per_warp<<<dim3(h.size(1), h.size(0)), 32>>>(x.data_ptr<float>(), h.data_ptr<float>(), c.data_ptr<float>(), wx.data_ptr<float>(),
        wh.data_ptr<float>(), bias.data_ptr<float>(), peep.data_ptr<float>(), p, p + h.numel(), x.size(1), h.size(1));
    return {both[0], both[1]};
}
"""

cpp_source = "std::vector<torch::Tensor> step(torch::Tensor x, torch::Tensor h, torch::Tensor c, torch::Tensor wx, torch::Tensor wh, torch::Tensor bias, torch::Tensor peep);"

ext = load_inline(
    name="step_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["step"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(4 * hidden, inner) * 0.4)
        self.w_h = nn.Parameter(torch.randn(4 * hidden, hidden) * 0.4)
        self.bias = nn.Parameter(torch.randn(4 * hidden) * 0.2)
        self.peep = nn.Parameter(torch.randn(3, hidden) * 0.5)

    def forward(self, x, h, c):
        return tuple(ext.step(x.contiguous(), h.contiguous(), c.contiguous(), self.w_x, self.w_h, self.bias, self.peep))
