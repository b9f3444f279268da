# about = "The reset gate multiplies the state before its matrix; the reference multiplies the product with its bias."
# section = "mismatch"
# problem = "gru_steps"
# causes = ["weight-wrong-place", "activation-order", "mask-wrong-place"]
# says = ["reset|gate|order|before|after|place|inside|outside"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

gru_src = r"""
#include <torch/extension.h>

__device__ inline float sig(float v) { return 1.f / (1.f + expf(-v)); }

// a block per sample, a thread per hidden unit, the state in shared memory
__global__ void gru_kernel(const float* x, const float* h0, const float* wx, const float* wh, const float* bx,
                           const float* bh, float* out, int steps, int inner, int hidden) {
    extern __shared__ float mem[];
    float* h = mem;
    float* rh = mem + hidden;
    int b = blockIdx.x, u = threadIdx.x;
    h[u] = h0[b * hidden + u];
    __syncthreads();
    for (int t = 0; t < steps; t++) {
        const float* xt = x + (b * steps + t) * inner;
        float gate[3];
        for (int k = 0; k < 3; k++) {
            int row = k * hidden + u;
            gate[k] = bx[row] + bh[row];
            for (int i = 0; i < inner; i++) gate[k] += wx[row * inner + i] * xt[i];
        }
        for (int i = 0; i < hidden; i++) {
            gate[0] += wh[u * hidden + i] * h[i];
            gate[1] += wh[(hidden + u) * hidden + i] * h[i];
        }
        float r = sig(gate[0]), z = sig(gate[1]);
        rh[u] = r * h[u];
        __syncthreads();
        for (int i = 0; i < hidden; i++) gate[2] += wh[(2 * hidden + u) * hidden + i] * rh[i];
        float next = (1.f - z) * tanhf(gate[2]) + z * h[u];
        __syncthreads();
        h[u] = next;
        out[(b * steps + t) * hidden + u] = next;
        __syncthreads();
    }
}

torch::Tensor gru(torch::Tensor x, torch::Tensor h, torch::Tensor wx, torch::Tensor wh, torch::Tensor bx,
                  torch::Tensor bh) {
    int batch = x.size(0), steps = x.size(1), inner = x.size(2), hidden = h.size(1);
    auto out = torch::empty({batch, steps, hidden}, x.options());
    gru_kernel<<<batch, hidden, 2 * hidden * sizeof(float)>>>(x.data_ptr<float>(), h.data_ptr<float>(),
        wx.data_ptr<float>(), wh.data_ptr<float>(), bx.data_ptr<float>(), bh.data_ptr<float>(), out.data_ptr<float>(),
        steps, inner, hidden);
    return out;
}
"""

gru = load_inline(
    name="gru",
    cpp_sources="torch::Tensor gru(torch::Tensor x, torch::Tensor h, torch::Tensor wx, torch::Tensor wh, torch::Tensor bx, torch::Tensor bh);",
    cuda_sources=gru_src,
    functions=["gru"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(3 * hidden, inner) * 0.4)
        self.w_h = nn.Parameter(torch.randn(3 * hidden, hidden) * 0.4)
        self.b_x = nn.Parameter(torch.randn(3 * hidden) * 0.2)
        self.b_h = nn.Parameter(torch.randn(3 * hidden) * 0.2)

    def forward(self, x, h):
        return gru.gru(x.contiguous(), h.contiguous(), self.w_x, self.w_h, self.b_x, self.b_h)
