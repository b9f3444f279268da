# about = "The running variance is blended with the biased variance; torch takes n - 1 there."
# section = "mismatch"
# problem = "bn1d_training"
# causes = ["biased-variance"]
# says = ["biased|n - 1|n-1|correction|bessel|population|divis|divid"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <vector>

__global__ void bn_train_kernel(const float* __restrict__ x, const float* __restrict__ rm, const float* __restrict__ rv,
                                const float* __restrict__ w, const float* __restrict__ b,
                                float* __restrict__ y, float* __restrict__ nm, float* __restrict__ nv,
                                int N, int C, int L, float momentum, float eps) {
    __shared__ float buf[128];
    const int c = blockIdx.x;
    const int tid = threadIdx.x;
    const int count = N * L;

    float s = 0.0f;
    for (int i = tid; i < count; i += blockDim.x) {
        int n = i / L, l = i % L;
        s += x[(n * C + c) * L + l];
    }
    buf[tid] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (tid < k) buf[tid] += buf[tid + k];
        __syncthreads();
    }
    const float mean = buf[0] / count;
    __syncthreads();

    float q = 0.0f;
    for (int i = tid; i < count; i += blockDim.x) {
        int n = i / L, l = i % L;
        float d = x[(n * C + c) * L + l] - mean;
        q += d * d;
    }
    buf[tid] = q;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (tid < k) buf[tid] += buf[tid + k];
        __syncthreads();
    }
    const float var = buf[0] / count;
    const float inv = rsqrtf(var + eps);

    for (int i = tid; i < count; i += blockDim.x) {
        int idx = ((i / L) * C + c) * L + i % L;
        y[idx] = (x[idx] - mean) * inv * w[c] + b[c];
    }
    if (tid == 0) {
        nm[c] = (1.0f - momentum) * rm[c] + momentum * mean;
        nv[c] = (1.0f - momentum) * rv[c] + momentum * var;
    }
}

std::vector<torch::Tensor> bn_train(torch::Tensor x, torch::Tensor rm, torch::Tensor rv, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    auto nm = torch::empty_like(rm);
    auto nv = torch::empty_like(rv);
    int N = x.size(0), C = x.size(1), L = x.size(2);
    bn_train_kernel<<<C, 128>>>(x.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(), w.data_ptr<float>(),
                                b.data_ptr<float>(), y.data_ptr<float>(), nm.data_ptr<float>(), nv.data_ptr<float>(),
                                N, C, L, 0.15f, 1e-4f);
    return {y, nm, nv};
}
"""

cpp_src = """
#include <torch/extension.h>
#include <vector>
std::vector<torch::Tensor> bn_train(torch::Tensor x, torch::Tensor rm, torch::Tensor rv, torch::Tensor w, torch::Tensor b);
"""

bn_ext = load_inline(name="bn_train_ext", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["bn_train"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        y, m, v = bn_ext.bn_train(x.contiguous(), running_mean.contiguous(), running_var.contiguous(), self.weight, self.bias)
        return y, m, v
