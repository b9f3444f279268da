# about = "The input is not carried: only the gated hidden layer is left."
# section = "mismatch"
# problem = "highway"
# causes = ["residual-missing", "operator-missing"]
# says = ["residual|carr|input|add|missing|left out"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
// a block per row, the row in shared memory, a thread per column
__global__ void layer(const float* x, const float* wh, const float* bh, const float* wg, const float* bg, float* y, int width) {
    extern __shared__ float row[];
    const int c = threadIdx.x;
    if (c < width) row[c] = x[blockIdx.x * width + c];
    __syncthreads();
    if (c >= width) return;
    float hidden = 0.f, gate = 0.f;
    #pragma unroll 2
    for (int k = 0; k < width; ++k) {
        hidden = fmaf(row[k], wh[c * width + k], hidden);
        gate = fmaf(row[k], wg[c * width + k], gate);
    }
    hidden = fmaxf(hidden + bh[c], 0.f);
    gate = 1.f / (1.f + __expf(-(gate + bg[c])));
    y[blockIdx.x * width + c] = gate * hidden;
}

torch::Tensor layer_forward(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg, torch::Tensor bg) {
    auto y = torch::empty_like(x);
    const int width = x.size(1);
    layer<<<x.size(0), (width + 31) / 32 * 32, width * sizeof(float)>>>(x.data_ptr<float>(), wh.data_ptr<float>(),
        bh.data_ptr<float>(), wg.data_ptr<float>(), bg.data_ptr<float>(), y.data_ptr<float>(), width);
    return y;
}
"""

lib = load_inline(
    name="highway_layer",
    cpp_sources="torch::Tensor layer_forward(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg, torch::Tensor bg);",
    cuda_sources=CUDA,
    functions=["layer_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        h, g = self.hidden, self.gate
        return lib.layer_forward(x.contiguous(), h.weight, h.bias, g.weight, g.bias)
