# about = "The output has the whole width of the input, not half of it."
# section = "mismatch"
# problem = "geglu"
# causes = ["wrong-shape", "output-size"]
# says = ["shape|size|44|half"]
# stage = ["verify", "run"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SRC = r"""
__global__ void gelu_gate(const float* x, float* y, int rows, int width) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const int half = width / 2;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        const float value = x[row * width + c % half];
        const float gate = x[row * width + half + c % half];
        y[row * width + c] = value * gate * normcdff(gate);
    }
}

torch::Tensor gelu_gate_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int width = x.size(-1), rows = x.numel() / width;
    gelu_gate<<<(rows + 7) / 8, dim3(16, 8)>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, width);
    return y;
}
"""

ops = load_inline(
    name="gelu_gate",
    cpp_sources="torch::Tensor gelu_gate_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SRC,
    functions=["gelu_gate_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ops.gelu_gate_cuda(x.contiguous())
