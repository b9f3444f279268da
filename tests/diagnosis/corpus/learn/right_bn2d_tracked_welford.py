# about = "Right: statistics by a pairwise combination of means, running statistics updated in place."
# section = "right"
# problem = "bn2d_tracked"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <vector>

struct Moments { float mean, m2, n; };

__device__ Moments combine(Moments a, Moments b) {
    float n = a.n + b.n;
    if (n == 0.f) return a;
    float d = b.mean - a.mean;
    Moments r;
    r.n = n;
    r.mean = a.mean + d * (b.n / n);
    r.m2 = a.m2 + b.m2 + d * d * (a.n * b.n / n);
    return r;
}

__global__ void moments_kernel(const float* x, float* rm, float* rv, float* om, float* ov, float2* stat, int batch, int ch, int area) {
    __shared__ Moments part[64];
    int c = blockIdx.x, t = threadIdx.x, n = batch * area;
    Moments m{0.f, 0.f, 0.f};
    for (int j = t; j < n; j += 64) {
        float v = x[((j / area) * ch + c) * area + j % area];
        m.n += 1.f;
        float d = v - m.mean;
        m.mean += d / m.n;
        m.m2 += d * (v - m.mean);
    }
    part[t] = m;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (t < s) part[t] = combine(part[t], part[t + s]);
        __syncthreads();
    }
    if (t == 0) {
        m = part[0];
        stat[c] = make_float2(m.mean, rsqrtf(m.m2 / m.n + 1e-5f));
        rm[c] = 0.8f * rm[c] + 0.2f * m.mean;
        rv[c] = 0.8f * rv[c] + 0.2f * (m.m2 / (m.n - 1.f));
        om[c] = rm[c];
        ov[c] = rv[c];
    }
}

__global__ void apply_kernel(const float* x, const float2* stat, const float* w, const float* b, float* y, int total, int ch, int area) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        int c = (i / area) % ch;
        float v = (x[i] - stat[c].x) * stat[c].y * w[c] + b[c];
        y[i] = fmaxf(v, 0.f) + 0.1f * fminf(v, 0.f);
    }
}

std::vector<torch::Tensor> step(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rm, torch::Tensor rv) {
    auto y = torch::empty_like(x), om = torch::empty_like(rm), ov = torch::empty_like(rv);
    int ch = x.size(1), area = x.size(2) * x.size(3), total = x.numel();
    auto stat = torch::empty({ch, 2}, x.options());
    float2* s = reinterpret_cast<float2*>(stat.data_ptr<float>());
    moments_kernel<<<ch, 64>>>(x.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(), om.data_ptr<float>(),
                               ov.data_ptr<float>(), s, x.size(0), ch, area);
    apply_kernel<<<(total + 191) / 192, 192>>>(x.data_ptr<float>(), s, w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                               total, ch, area);
    return {y, om, ov};
}
"""
ops = load_inline(
    name="welford_bn",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> step(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rm, torch::Tensor rv);",
    cuda_sources=SOURCE,
    functions=["step"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        y, m, v = ops.step(x.contiguous(), self.weight, self.bias, running_mean, running_var)
        return y, m, v
