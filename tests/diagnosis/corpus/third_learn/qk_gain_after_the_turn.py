# about = "The gain multiplies the rotated vector; the reference scales before it rotates."
# section = "mismatch"
# problem = "qk_norm_rotary"
# causes = ["activation-order", "weight-wrong-place", "affine-per-group", "stale-default-parameter", "affine-ignored", "weight-ignored"]
# says = ["order|after|before|gain|weight|affine|parameter|place|perturbed"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void inverse_rms(const float4* x, float* inv, int rows, int quads, float eps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float acc = 0.f;
    for (int i = 0; i < quads; ++i) {
        float4 v = x[row * quads + i];
        acc += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    inv[row] = rsqrtf(acc / (4 * quads) + eps);
}

__global__ void tables(float* cosine, float* sine, int steps, int half, double base, int start) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= steps * half) return;
    double angle = (i / half + start) * pow(base, -(double)(i % half) / half);
    cosine[i] = (float)cos(angle);
    sine[i] = (float)sin(angle);
}

__global__ void turn(const float* x, const float* inv, const float* cosine, const float* sine, const float* gain, float* y,
                     int total, int steps, int heads, int half) {
    // one thread per pair, grid-stride
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        int row = i / half, j = i % half;
        int t = row / heads % steps;
        float c = cosine[t * half + j], s = sine[t * half + j];
        int lo = row * 2 * half + j, hi = lo + half;
        float a = x[lo] * inv[row], b = x[hi] * inv[row];
        y[lo] = (a * c - b * s) * gain[j];
        y[hi] = (b * c + a * s) * gain[j + half];
    }
}

torch::Tensor norm_and_turn(torch::Tensor x, torch::Tensor gain, double base, int64_t start, double eps) {
    int steps = x.size(1), heads = x.size(2), width = x.size(3), half = width / 2, rows = x.numel() / width;
    auto y = torch::empty_like(x);
    auto inv = torch::empty({rows}, x.options());
    auto cosine = torch::empty({steps, half}, x.options()), sine = torch::empty({steps, half}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    inverse_rms<<<(rows + 31) / 32, 32, 0, stream>>>((const float4*)x.data_ptr<float>(), inv.data_ptr<float>(), rows, width / 4, eps);
    tables<<<(steps * half + 127) / 128, 128, 0, stream>>>(cosine.data_ptr<float>(), sine.data_ptr<float>(), steps, half, base, start);
    turn<<<4, 128, 0, stream>>>(x.data_ptr<float>(), inv.data_ptr<float>(), cosine.data_ptr<float>(), sine.data_ptr<float>(),
                                gain.data_ptr<float>(), y.data_ptr<float>(), rows * half, steps, heads, half);
    return y;
}
"""

ext = load_inline(
    name="norm_and_turn",
    cpp_sources="torch::Tensor norm_and_turn(torch::Tensor x, torch::Tensor gain, double base, int64_t start, double eps);",
    cuda_sources=source,
    functions=["norm_and_turn"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        q = ext.norm_and_turn(q.contiguous(), self.q_gain, self.base, self.start, self.eps)
        k = ext.norm_and_turn(k.contiguous(), self.k_gain, self.base, self.start, self.eps)
        return q, k
