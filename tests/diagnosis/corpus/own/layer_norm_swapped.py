# about = "Weight and bias are exchanged."
# section = "mismatch"
# problem = "layer_norm"
# causes = ["gamma-beta-swapped"]
# says = ["weight|gamma", "bias|beta"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="layer_norm",
    cpp_sources="torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);",
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

__global__ void layer_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int n, float eps) {
    __shared__ float shared[32];
    const float* row = x + (long)blockIdx.x * n;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
    float mean = block_sum(sum, shared) / n;
    float square = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) square += (row[i] - mean) * (row[i] - mean);
    float var = block_sum(square, shared) / n;
    float inverse = rsqrtf(var + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(long)blockIdx.x * n + i] = (row[i] - mean) * inverse * bias[i] + weight[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto y = torch::empty_like(x);
    int n = x.size(-1);
    layer_norm_kernel<<<x.numel() / n, 64>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        y.data_ptr<float>(), n, (float)eps);
    return y;
}
""",
    functions=["layer_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, eps=1e-3)

    def forward(self, x):
        return ext.layer_norm(x.contiguous(), self.norm.weight, self.norm.bias, self.norm.eps)
