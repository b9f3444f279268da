# about = "The running statistics are never updated: they are returned as they were."
# section = "mismatch"
# problem = "bn2d_tracked"
# causes = ["state-not-updated"]
# says = ["updat|before|unchanged|as it was|old|stale|running"]
# stage = ["verify"]

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <vector>

__global__ void bn_leaky(const float* in, const float* gamma, const float* beta, float* out, int B, int C, int HW) {
    extern __shared__ float sh[];
    float* s1 = sh;
    float* s2 = sh + blockDim.x;
    int c = blockIdx.x;
    int m = B * HW;
    float local = 0.f;
    for (int j = threadIdx.x; j < m; j += blockDim.x) local += in[(j / HW * C + c) * HW + j % HW];
    s1[threadIdx.x] = local;
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0.f;
        for (int j = 0; j < blockDim.x; ++j) t += s1[j];
        s1[0] = t / m;
    }
    __syncthreads();
    float mu = s1[0];
    local = 0.f;
    for (int j = threadIdx.x; j < m; j += blockDim.x) {
        float d = in[(j / HW * C + c) * HW + j % HW] - mu;
        local += d * d;
    }
    s2[threadIdx.x] = local;
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0.f;
        for (int j = 0; j < blockDim.x; ++j) t += s2[j];
        s2[0] = t / m;
    }
    __syncthreads();
    float sigma2 = s2[0];
    float inv = 1.f / sqrtf(sigma2 + 1e-5f);
    for (int j = threadIdx.x; j < m; j += blockDim.x) {
        int k = (j / HW * C + c) * HW + j % HW;
        float v = (in[k] - mu) * inv * gamma[c] + beta[c];
        out[k] = v >= 0.f ? v : 0.1f * v;
    }
}

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor g, torch::Tensor b, torch::Tensor rm, torch::Tensor rv) {
    auto out = torch::empty_like(x);
    int threads = 96;
    bn_leaky<<<x.size(1), threads, 2 * threads * sizeof(float)>>>(x.data_ptr<float>(), g.data_ptr<float>(), b.data_ptr<float>(),
        out.data_ptr<float>(), x.size(0), x.size(1), x.size(2) * x.size(3));
    return {out, rm.clone(), rv.clone()};
}
"""
cpp_source = "#include <vector>\nstd::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor g, torch::Tensor b, torch::Tensor rm, torch::Tensor rv);"
bn_op = load_inline(name="bn_leaky_tracked", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["forward"])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        y, m, v = bn_op.forward(x.contiguous(), self.weight, self.bias, running_mean, running_var)
        return y, m, v
