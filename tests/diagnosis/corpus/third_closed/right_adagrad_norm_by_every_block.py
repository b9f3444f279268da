# about = "Right: every block finds the norm of the gradient for itself and then updates its own elements by pairs."
# section = "right"
# problem = "adagrad_clipped"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

struct Settings { float rate, greatest, decay, eps; };

__device__ void move(float& p, float grad, float& total, float factor, Settings s) {
    const float g = grad * factor + s.decay * p;
    total += g * g;
    p -= s.rate * g / (sqrtf(total) + s.eps);
}

__global__ void step(float* p, const float* grad, float* total, int n, Settings s) {
    __shared__ double sums[64];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += 64) sum += (double)grad[i] * grad[i];
    sums[threadIdx.x] = sum;
    for (int k = 32; k > 0; k /= 2) {
        __syncthreads();
        if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k];
    }
    __syncthreads();
    const float factor = fminf(1.f, s.greatest / ((float)sqrt(sums[0]) + 1e-6f));
    const int i = 2 * (blockIdx.x * 64 + threadIdx.x);
    if (i < n) move(p[i], grad[i], total[i], factor, s);
    if (i + 1 < n) move(p[i + 1], grad[i + 1], total[i + 1], factor, s);
}

void adagrad_(torch::Tensor p, torch::Tensor grad, torch::Tensor total, double rate, double greatest, double decay, double eps) {
    const int n = p.numel();
    step<<<(n + 127) / 128, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        p.data_ptr<float>(), grad.data_ptr<float>(), total.data_ptr<float>(), n,
        Settings{(float)rate, (float)greatest, (float)decay, (float)eps});
}
"""
ext = load_inline(
    name="adagrad_in_place",
    cpp_sources="void adagrad_(torch::Tensor p, torch::Tensor grad, torch::Tensor total, double rate, double greatest, double decay, double eps);",
    cuda_sources=SRC,
    functions=["adagrad_"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super().__init__()
        self.settings = rate / (1 + (step - 1) * rate_decay), greatest, weight_decay, eps

    def forward(self, p, grad, total):
        ext.adagrad_(p, grad.contiguous(), total, *self.settings)
        return p, total
