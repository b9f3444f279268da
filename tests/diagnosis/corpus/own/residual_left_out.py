# about = "No residual."
# section = "mismatch"
# problem = "residual_block"
# causes = ["residual-missing"]
# says = ["residual|add"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="residual_block",
    cpp_sources="torch::Tensor norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias); torch::Tensor silu(torch::Tensor x); torch::Tensor plus(torch::Tensor x, torch::Tensor y);",
    cuda_sources=r"""
__device__ float block_sum(float v, float* shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += shared[w];
    __syncthreads();
    return total;
}

__global__ void norm_kernel(const float* x, const float* weight, const float* bias, float* y, int n) {
    __shared__ float shared[32];
    const float* row = x + (long)blockIdx.x * n;
    float sum = 0.f, square = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
    float mean = block_sum(sum, shared) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) square += (row[i] - mean) * (row[i] - mean);
    float inverse = rsqrtf(block_sum(square, shared) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(long)blockIdx.x * n + i] = (row[i] - mean) * inverse * weight[i] + bias[i];
}

__global__ void silu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.f + expf(-x[i]));
}

__global__ void plus_kernel(const float* a, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i];
}

torch::Tensor norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    norm_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        y.data_ptr<float>(), x.size(1));
    return y;
}

torch::Tensor silu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    silu_kernel<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

torch::Tensor plus(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    plus_kernel<<<(a.numel() + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), a.numel());
    return y;
}
""",
    functions=["norm", "silu", "plus"],
)


class ModelNew(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        normed = ext.norm(x.contiguous(), self.norm.weight, self.norm.bias)
        return ext.plus(torch.zeros_like(x), self.down(ext.silu(self.up(normed))))
