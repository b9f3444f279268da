# about = "The gradient is cut by the sum of its squares, without the root that makes it a norm."
# section = "mismatch"
# problem = "adagrad_clipped"
# causes = ["root-omitted", "wrong-divisor", "wrong-norm-order", "scale-doubled"]
# says = ["root|norm|squar|divi|scal|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void grad_norm(const float* g, float* norm, int n) {
    __shared__ float s[256];
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += g[i] * g[i];
    s[threadIdx.x] = acc;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *norm = s[0];
}

__global__ void adagrad(float* p, const float* g, float* sum, const float* norm, int n, float lr, float max_norm, float wd, float eps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float clip = fminf(1.f, max_norm / (*norm + 1e-6f));
    float grad = g[i] * clip + wd * p[i];
    float acc = sum[i] + grad * grad;
    sum[i] = acc;
    p[i] -= lr * grad / (sqrtf(acc) + eps);
}

std::vector<torch::Tensor> adagrad_step(torch::Tensor p, torch::Tensor g, torch::Tensor sum, double lr, double max_norm, double wd, double eps) {
    int n = p.numel();
    auto norm = torch::empty({1}, p.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    grad_norm<<<1, 256, 0, stream>>>(g.data_ptr<float>(), norm.data_ptr<float>(), n);
    adagrad<<<(n + 255) / 256, 256, 0, stream>>>(p.data_ptr<float>(), g.data_ptr<float>(), sum.data_ptr<float>(), norm.data_ptr<float>(), n,
                                                 (float)lr, (float)max_norm, (float)wd, (float)eps);
    return {p, sum};
}
"""

opt = load_inline(
    name="adagrad_step",
    cpp_sources="std::vector<torch::Tensor> adagrad_step(torch::Tensor p, torch::Tensor g, torch::Tensor sum, double lr, double max_norm, double wd, double eps);",
    cuda_sources=source,
    functions=["adagrad_step"],
)


class ModelNew(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super().__init__()
        self.lr = rate / (1 + (step - 1) * rate_decay)
        self.greatest = greatest
        self.weight_decay = weight_decay
        self.eps = eps

    def forward(self, p, grad, total):
        p, total = opt.adagrad_step(p, grad.contiguous(), total, self.lr, self.greatest, self.weight_decay, self.eps)
        return p, total
