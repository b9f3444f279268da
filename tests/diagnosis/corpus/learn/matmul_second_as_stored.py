# about = "The second matrix is read as if it were inner by columns: not transposed."
# section = "mismatch"
# problem = "matmul_both_transposed"
# causes = ["transposed-operand", "layout-misread"]
# says = ["transpos|layout|stride"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="atbt",
    cpp_sources="torch::Tensor atbt(torch::Tensor a, torch::Tensor b, torch::Tensor bias);",
    cuda_sources=r"""
__global__ void atbt_kernel(const float* a, const float* b, const float* bias, float* y, int M, int N, int K) {
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= M || n >= N) return;
    float acc = 0.f;
    for (int k = 0; k < K; ++k) acc += a[k * M + m] * b[k * N + n];
    y[m * N + n] = acc + bias[m];
}

torch::Tensor atbt(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
    int K = a.size(0), M = a.size(1), N = b.size(0);
    auto y = torch::empty({M, N}, a.options());
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    atbt_kernel<<<grid, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), M, N, K);
    return y;
}
""",
    functions=["atbt"],
)


class ModelNew(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(rows))

    def forward(self, a, b):
        return ext.atbt(a.contiguous(), b.contiguous(), self.bias)
