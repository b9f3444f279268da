# about = "The leaky ReLU comes before the normalisation and not after it."
# section = "mismatch"
# problem = "upconv_tracked"
# causes = ["activation-order"]
# says = ["order|before|after|activation|relu|first"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float leaky(float v) { return v >= 0.f ? v : 0.1f * v; }

__global__ void deconv(const float* x, const float* w, float* y, int IC, int OC, int H, int W, int OH, int OW) {
    const int oc = blockIdx.y, n = blockIdx.z, gi = IC / 2, go = OC / 2, g = oc / go;
    for (int p = threadIdx.x; p < OH * OW; p += blockDim.x) {
        const int oh = p / OW, ow = p % OW;
        float acc = 0.f;
        for (int h = 0; h < H; ++h) {
            const int kh = oh + 1 - 2 * h;
            if (kh < 0 || kh > 2) continue;
            for (int v = 0; v < W; ++v) {
                const int d = ow - v;
                if (d != 0 && d != 2) continue;
                for (int i = 0; i < gi; ++i)
                    acc += x[((n * IC + g * gi + i) * H + h) * W + v] * w[(((g * gi + i) * go + oc - g * go) * 3 + kh) * 2 + d / 2];
            }
        }
        y[(n * OC + oc) * OH * OW + p] = acc;
    }
}

__global__ void moments(const float* y, float* mean, float* var, float* rm, float* rv, float share, int N, int C, int area) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    const int n = N * area;
    float s = 0.f;
    for (int i = 0; i < n; ++i) s += y[(i / area * C + c) * area + i % area];
    const float m = s / n;
    float q = 0.f;
    for (int i = 0; i < n; ++i) {
        const float d = y[(i / area * C + c) * area + i % area] - m;
        q += d * d;
    }
    rm[c] += share * (m - rm[c]);
    rv[c] += share * (q / (n - 1) - rv[c]);
}

__global__ void finish(float* y, const float* gain, const float* shift, int N, int C, int area) {
    const int c = blockIdx.x;
    const int n = N * area;
    __shared__ float mean, inv;
    if (threadIdx.x == 0) {
        float s = 0.f, q = 0.f;
        for (int i = 0; i < n; ++i) s += leaky(y[(i / area * C + c) * area + i % area]);
        mean = s / n;
        for (int i = 0; i < n; ++i) {
            const float d = leaky(y[(i / area * C + c) * area + i % area]) - mean;
            q += d * d;
        }
        inv = rsqrtf(q / n + 1e-3f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float* at = y + (i / area * C + c) * area + i % area;
        *at = (leaky(*at) - mean) * inv * gain[c] + shift[c];
    }
}

torch::Tensor deconv_norm(torch::Tensor x, torch::Tensor w, torch::Tensor gain, torch::Tensor shift, torch::Tensor rm, torch::Tensor rv, double share) {
    const int N = x.size(0), IC = x.size(1), H = x.size(2), W = x.size(3), OC = w.size(1) * 2, OH = 2 * H - 1, OW = W + 2;
    auto y = torch::empty({N, OC, OH, OW}, x.options());
    deconv<<<dim3(1, OC, N), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), IC, OC, H, W, OH, OW);
    moments<<<1, 32>>>(y.data_ptr<float>(), nullptr, nullptr, rm.data_ptr<float>(), rv.data_ptr<float>(), (float)share, N, OC, OH * OW);
    finish<<<OC, 64>>>(y.data_ptr<float>(), gain.data_ptr<float>(), shift.data_ptr<float>(), N, OC, OH * OW);
    return y;
}
"""

op = load_inline(
    name="deconv_norm",
    cpp_sources="torch::Tensor deconv_norm(torch::Tensor x, torch::Tensor w, torch::Tensor gain, torch::Tensor shift, torch::Tensor rm, torch::Tensor rv, double share);",
    cuda_sources=source,
    functions=["deconv_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, share):
        super().__init__()
        self.up = nn.ConvTranspose2d(inner, outer, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False)
        self.weight = nn.Parameter(torch.rand(outer) + 0.5)
        self.bias = nn.Parameter(torch.randn(outer) * 0.4)
        self.share = share

    def forward(self, x, running_mean, running_var):
        y = op.deconv_norm(x.contiguous(), self.up.weight, self.weight, self.bias, running_mean, running_var, self.share)
        return y, running_mean, running_var
