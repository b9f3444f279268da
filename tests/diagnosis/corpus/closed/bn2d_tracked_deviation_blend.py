# about = "Blends the running variance with the standard deviation of the batch, and the slope of the activation is that of the default."
# section = "mismatch"
# problem = "bn2d_tracked"
# faults = [{causes = ["root-omitted", "wrong-decay", "operator-doubled"], says = ["root|sqrt|deviation|variance"]}, {causes = ["wrong-slope"], says = ["slope|0\\.01|alpha"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <vector>
using T = torch::Tensor;

__inline__ __device__ float block_total(float v, float* scratch) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float t = 0.f;
    for (int k = 0; k < blockDim.x / 32; ++k) t += scratch[k];
    __syncthreads();
    return t;
}

__global__ void train_norm(const float* x, const float* w, const float* b, float* rm, float* rv, float* y, float* om, float* ov,
                           int batch, int ch, int area) {
    __shared__ float scratch[32];
    int c = blockIdx.x, n = batch * area;
    auto at = [=](int j) { return ((j / area) * ch + c) * area + j % area; };
    float v = 0.f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) v += x[at(j)];
    float mean = block_total(v, scratch) / n;
    v = 0.f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) { float d = x[at(j)] - mean; v += d * d; }
    float ss = block_total(v, scratch);
    float std = sqrtf(ss / n + 1e-5f);
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        float z = (x[at(j)] - mean) / std * w[c] + b[c];
        y[at(j)] = z > 0.f ? z : z * 0.01f;
    }
    if (threadIdx.x == 0) {
        rm[c] = rm[c] * 0.8f + mean * 0.2f;
        rv[c] = rv[c] * 0.8f + sqrtf(ss / (n - 1)) * 0.2f;
        om[c] = rm[c];
        ov[c] = rv[c];
    }
}

std::vector<T> train_norm_forward(T x, T w, T b, T rm, T rv) {
    T y = torch::empty_like(x), om = torch::empty_like(rm), ov = torch::empty_like(rv);
    train_norm<<<x.size(1), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), rm.data_ptr<float>(),
        rv.data_ptr<float>(), y.data_ptr<float>(), om.data_ptr<float>(), ov.data_ptr<float>(), x.size(0), x.size(1), x.size(2) * x.size(3));
    return {y, om, ov};
}
"""

lib = load_inline(
    name="train_norm_lib",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> train_norm_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rm, torch::Tensor rv);",
    cuda_sources=SOURCE,
    functions=["train_norm_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        return tuple(lib.train_norm_forward(x.contiguous(), self.weight, self.bias, running_mean, running_var))
