# about = "The threshold is 1."
# section = "mismatch"
# problem = "smooth_l1"
# causes = ["wrong-slope", "clamp-bounds"]
# says = ["beta|threshold"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="smooth_l1",
    cpp_sources="torch::Tensor loss(torch::Tensor p, torch::Tensor t, double beta);",
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

__global__ void loss_kernel(const float* p, const float* t, float* y, int n, float beta) {
    __shared__ float shared[32];
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = fabsf(p[i] - t[i]);
        sum += d < beta ? 0.5f * d * d / beta : d - 0.5f * beta;
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) y[0] = sum / n;
}

torch::Tensor loss(torch::Tensor p, torch::Tensor t, double beta) {
    auto y = torch::empty({}, p.options());
    loss_kernel<<<1, 256>>>(p.data_ptr<float>(), t.data_ptr<float>(), y.data_ptr<float>(), p.numel(), 1.f);
    return y;
}
""",
    functions=["loss"],
)


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, prediction, target):
        return ext.loss(prediction.contiguous(), target.contiguous(), self.beta)
