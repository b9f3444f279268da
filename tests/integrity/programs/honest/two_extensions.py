# about = "The product and the activation are two extensions."
# category = "structure"
# problem = "linear_gelu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

product = load_inline(
    name="product",
    cpp_sources="torch::Tensor product(torch::Tensor x, torch::Tensor w);",
    cuda_sources=r"""
__global__ void product_kernel(const float* x, const float* w, float* y, int m, int n, int k) {
    __shared__ float xs[8][8], ws[8][8];
    int col = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0.f;
    for (int start = 0; start < k; start += 8) {
        xs[threadIdx.y][threadIdx.x] = row < m && start + threadIdx.x < k ? x[row * k + start + threadIdx.x] : 0.f;
        int other = blockIdx.x * 8 + threadIdx.y;
        ws[threadIdx.y][threadIdx.x] = other < n && start + threadIdx.x < k ? w[other * k + start + threadIdx.x] : 0.f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += xs[threadIdx.y][i] * ws[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m && col < n) y[row * n + col] = sum;
}

torch::Tensor product(torch::Tensor x, torch::Tensor w) {
    int m = x.size(0), k = x.size(1), n = w.size(0);
    auto y = torch::empty({m, n}, x.options());
    product_kernel<<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), m, n, k);
    return y;
}
""",
    functions=["product"],
)
activation = load_inline(
    name="activation",
    cpp_sources="void gelu_(torch::Tensor y, torch::Tensor b);",
    cuda_sources=r"""
__global__ void gelu_kernel(float* y, const float* b, int total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float v = y[i] + b[i % n];
    y[i] = v * normcdff(v);
}

void gelu_(torch::Tensor y, torch::Tensor b) {
    int total = y.numel();
    gelu_kernel<<<(total + 127) / 128, 128>>>(y.data_ptr<float>(), b.data_ptr<float>(), total, y.size(1));
}
""",
    functions=["gelu_"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = product.product(x.contiguous(), self.linear.weight)
        activation.gelu_(y, self.linear.bias)
        return y
