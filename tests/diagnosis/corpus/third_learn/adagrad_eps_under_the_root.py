# about = "Eps is added under the root of the accumulated squares, not to the root."
# section = "mismatch"
# problem = "adagrad_clipped"
# causes = ["eps-outside-root", "wrong-eps", "activation-order"]
# says = ["eps"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

// Partial squares of each block, then every block of the update adds them up again.
__global__ void squares(const float* __restrict__ grad, float* __restrict__ partial, int n) {
    __shared__ float warps[4];
    float s = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s = fmaf(grad[i], grad[i], s);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) partial[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
}

__global__ void update(float* __restrict__ p, const float* __restrict__ grad, float* __restrict__ total, const float* __restrict__ partial,
                       int blocks, int n, float rate, float greatest, float decay, float eps) {
    __shared__ float factor;
    if (threadIdx.x == 0) {
        float s = 0.f;
        for (int b = 0; b < blocks; ++b) s += partial[b];
        factor = fminf(greatest / (sqrtf(s) + 1e-6f), 1.f);
    }
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float g = fmaf(decay, p[i], grad[i] * factor);
        total[i] = fmaf(g, g, total[i]);
        p[i] -= rate * g * rsqrtf(total[i] + eps);
    }
}

void step(torch::Tensor p, torch::Tensor grad, torch::Tensor total, double rate, double greatest, double decay, double eps) {
    const int n = p.numel(), blocks = 3;
    auto partial = torch::empty({blocks}, p.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    squares<<<blocks, 128, 0, stream>>>(grad.data_ptr<float>(), partial.data_ptr<float>(), n);
    update<<<(n + 127) / 128, 128, 0, stream>>>(p.data_ptr<float>(), grad.data_ptr<float>(), total.data_ptr<float>(),
                                                partial.data_ptr<float>(), blocks, n, rate, greatest, decay, eps);
}
"""
ext = load_inline(
    name="adagrad_blocks",
    cpp_sources="void step(torch::Tensor p, torch::Tensor grad, torch::Tensor total, double rate, double greatest, double decay, double eps);",
    cuda_sources=CUDA,
    functions=["step"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super().__init__()
        self.rate = rate / (1 + (step - 1) * rate_decay)
        self.greatest, self.weight_decay, self.eps = greatest, weight_decay, eps

    def forward(self, p, grad, total):
        ext.step(p, grad.contiguous(), total, self.rate, self.greatest, self.weight_decay, self.eps)
        return p, total
