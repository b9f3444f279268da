# about = "eps is added to the root."
# section = "mismatch"
# problem = "rms_norm"
# causes = ["eps-outside-root"]
# says = ["eps"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps);",
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

__global__ void rms_norm_kernel(const float* x, const float* weight, float* y, int n, float eps) {
    __shared__ float shared[32];
    const float* row = x + (long)blockIdx.x * n;
    float square = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) square += row[i] * row[i];
    float factor = 1.f / (sqrtf(block_sum(square, shared) / n) + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[(long)blockIdx.x * n + i] = row[i] * factor * weight[i];
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    auto y = torch::empty_like(x);
    rms_norm_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1),
        (float)eps);
    return y;
}
""",
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return ext.rms_norm(x.contiguous(), self.weight, self.eps)
