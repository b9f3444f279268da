# about = "The filter is read from its last tap to its first."
# section = "mismatch"
# problem = "deconv_group_norm"
# causes = ["flipped-filter"]
# says = ["flip|backward|revers|turn|mirror|rotat"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <c10/cuda/CUDAStream.h>

struct Shape { int n, ci, co, h, w, oh, ow, groups; };

__global__ void fill_bias(float* y, const float* bias, Shape s) {
    const int plane = s.oh * s.ow, total = s.n * s.co * plane;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x)
        y[i] = bias[i / plane % s.co];
}

// every input pixel hands its product to the outputs it reaches
__global__ void scatter(const float* x, const float* wt, float* y, Shape s) {
    const int total = s.n * s.ci * s.h * s.w;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int c = i % s.w, r = i / s.w % s.h, ic = i / (s.w * s.h) % s.ci, n = i / (s.w * s.h * s.ci);
    const int per = s.co / s.groups, g = ic / (s.ci / s.groups);
    const float v = x[i];
    for (int o = 0; o < per; ++o)
        for (int t = 0; t < 9; ++t) {
            const int rr = 2 * r - 1 + t / 3, cc = 2 * c - 1 + t % 3;
            if (rr >= 0 && rr < s.oh && cc >= 0 && cc < s.ow)
                atomicAdd(&y[((n * s.co + g * per + o) * s.oh + rr) * s.ow + cc], v * wt[(ic * per + o) * 9 + 8 - t]);
        }
}

__global__ void moments(const float* y, float2* stat, int count, float eps) {
    __shared__ double a[64], b[64];
    const int t = threadIdx.x;
    const float* p = y + (size_t)blockIdx.x * count;
    double s = 0, q = 0;
    for (int i = t; i < count; i += 64) {
        s += p[i];
        q += (double)p[i] * p[i];
    }
    a[t] = s;
    b[t] = q;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) {
            a[t] += a[t + d];
            b[t] += b[t + d];
        }
        __syncthreads();
    }
    if (t == 0) {
        const double m = a[0] / count;
        stat[blockIdx.x] = make_float2((float)m, (float)(1.0 / sqrt(b[0] / count - m * m + eps)));
    }
}

__global__ void finish(float* y, const float2* stat, const float* w, const float* b, int co, int plane, int norm_groups, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int c = i / plane % co;
    const float2 st = stat[i / (plane * (co / norm_groups))];
    const float v = (y[i] - st.x) * st.y * w[c] + b[c];
    y[i] = v * (1.f / (1.f + __expf(-v)));
}

torch::Tensor stage(torch::Tensor x, torch::Tensor wt, torch::Tensor bias, torch::Tensor w, torch::Tensor b) {
    Shape s;
    s.n = x.size(0), s.ci = x.size(1), s.h = x.size(2), s.w = x.size(3);
    s.groups = 2, s.co = wt.size(1) * s.groups, s.oh = 2 * s.h, s.ow = 2 * s.w;
    const int norm_groups = 4, plane = s.oh * s.ow, total = s.n * s.co * plane;
    auto y = torch::empty({s.n, s.co, s.oh, s.ow}, x.options());
    auto stat = torch::empty({s.n * norm_groups, 2}, x.options());
    float2* st = reinterpret_cast<float2*>(stat.data_ptr<float>());
    auto stream = c10::cuda::getCurrentCUDAStream();
    fill_bias<<<12, 128, 0, stream>>>(y.data_ptr<float>(), bias.data_ptr<float>(), s);
    scatter<<<(x.numel() + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), wt.data_ptr<float>(), y.data_ptr<float>(), s);
    moments<<<s.n * norm_groups, 64, 0, stream>>>(y.data_ptr<float>(), st, s.co / norm_groups * plane, 1e-5f);
    finish<<<(total + 255) / 256, 256, 0, stream>>>(y.data_ptr<float>(), st, w.data_ptr<float>(), b.data_ptr<float>(), s.co,
                                                     plane, norm_groups, total);
    return y;
}
"""

net = load_inline(
    name="decoder_scatter",
    cpp_sources="torch::Tensor stage(torch::Tensor x, torch::Tensor wt, torch::Tensor bias, torch::Tensor w, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["stage"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, wide, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.norm = nn.GroupNorm(4, wide)

    def forward(self, x):
        return net.stage(x.contiguous(), self.up.weight, self.up.bias, self.norm.weight, self.norm.bias)
