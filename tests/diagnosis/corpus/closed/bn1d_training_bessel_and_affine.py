# about = "Normalises by the variance over n - 1, and the affine parameters are exchanged."
# section = "mismatch"
# problem = "bn1d_training"
# faults = [{causes = ["unbiased-variance"], says = ["unbiased|n - 1|n-1|bessel|correction"]}, {causes = ["gamma-beta-swapped"], says = ["swap|exchang|weight and bias|gamma|each other"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_cuda = r"""
#include <torch/extension.h>
#include <vector>
#define TPB 64

struct Params { int n, c, l; float momentum, eps; };

__global__ void stats(const float* x, float* mean, float* var, Params p) {
    __shared__ float a[TPB];
    int ch = blockIdx.x, t = threadIdx.x, total = p.n * p.l;
    float acc = 0.f;
    for (int i = t; i < total; i += TPB) acc += x[((i / p.l) * p.c + ch) * p.l + i % p.l];
    a[t] = acc;
    __syncthreads();
    for (int s = TPB / 2; s; s /= 2) { if (t < s) a[t] += a[t + s]; __syncthreads(); }
    float m = a[0] / total;
    __syncthreads();
    acc = 0.f;
    for (int i = t; i < total; i += TPB) {
        float d = x[((i / p.l) * p.c + ch) * p.l + i % p.l] - m;
        acc = fmaf(d, d, acc);
    }
    a[t] = acc;
    __syncthreads();
    for (int s = TPB / 2; s; s /= 2) { if (t < s) a[t] += a[t + s]; __syncthreads(); }
    if (t == 0) { mean[ch] = m; var[ch] = a[0] / (total - 1); }
}

__global__ void blend(const float* rm, const float* rv, const float* mean, const float* var, float* nm, float* nv, Params p) {
    int ch = blockIdx.x * blockDim.x + threadIdx.x;
    if (ch < p.c) {
        nm[ch] = rm[ch] + p.momentum * (mean[ch] - rm[ch]);
        nv[ch] = rv[ch] + p.momentum * (var[ch] - rv[ch]);
    }
}

__global__ void normalise(const float* x, const float* mean, const float* var, const float* shift, const float* scale,
                          float* y, Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n * p.c * p.l) return;
    int ch = (i / p.l) % p.c;
    y[i] = (x[i] - mean[ch]) / sqrtf(var[ch] + p.eps) * scale[ch] + shift[ch];
}

std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor rm, torch::Tensor rv, torch::Tensor weight, torch::Tensor bias,
                               double momentum, double eps) {
    Params p{(int)x.size(0), (int)x.size(1), (int)x.size(2), (float)momentum, (float)eps};
    auto y = torch::empty_like(x);
    auto mean = torch::empty({p.c}, x.options()), var = torch::empty({p.c}, x.options());
    auto nm = torch::empty_like(mean), nv = torch::empty_like(var);
    stats<<<p.c, TPB>>>(x.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(), p);
    blend<<<(p.c + 31) / 32, 32>>>(rm.data_ptr<float>(), rv.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
                                   nm.data_ptr<float>(), nv.data_ptr<float>(), p);
    int total = x.numel();
    normalise<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
                                            weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), p);
    return {y, nm, nv};
}
"""
_cpp = "std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor rm, torch::Tensor rv, torch::Tensor weight, torch::Tensor bias, double momentum, double eps);"
ops = load_inline("bn1d_run", cpp_sources=[_cpp], cuda_sources=[_cuda], functions=["run"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, channels, momentum=0.15, eps=1e-4):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        out = ops.run(x.contiguous(), running_mean, running_var, self.weight, self.bias, self.momentum, self.eps)
        return out[0], out[1], out[2]
