# about = "The rotated features are paired half with half where the reference pairs neighbours."
# section = "mismatch"
# problem = "attention_partial_rotary"
# causes = ["layout-misread", "wrong-coordinate", "wrong-channel", "wrong-axis"]
# says = ["pair|neighbo|half|halves|interleav|even|layout|order|rotat|index|stride"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
__global__ void rope_kernel(const float* __restrict__ x, const float* __restrict__ cos_t,
                            const float* __restrict__ sin_t, float* __restrict__ y, int total, int n, int d, int rot) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int c = idx % d;
    int pos = (idx / d) % n;
    if (c >= rot) {
        y[idx] = x[idx];
        return;
    }
    int half = rot / 2;
    int f = c % half;
    float cs = cos_t[pos * half + f], sn = sin_t[pos * half + f];
    float partner = c < half ? -x[idx + half] : x[idx - half];
    y[idx] = x[idx] * cs + partner * sn;
}

__global__ void gqa_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                           float* __restrict__ o, int H, int G, int n, int d, float scale) {
    extern __shared__ float sc[];
    int i = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    int g = h / (H / G);
    const float* qp = q + ((long)(b * H + h) * n + i) * d;
    const float* kp = k + (long)(b * G + g) * n * d;
    const float* vp = v + (long)(b * G + g) * n * d;
    int j = threadIdx.x;
    if (j < n) {
        float s = -INFINITY;
        if (j <= i) {
            s = 0.f;
            for (int c = 0; c < d; c++) s += qp[c] * kp[j * d + c];
            s *= scale;
        }
        sc[j] = s;
    }
    __syncthreads();
    float m = sc[0];
    for (int t = 1; t < n; t++) m = fmaxf(m, sc[t]);
    float sum = 0.f;
    for (int t = 0; t < n; t++) sum += expf(sc[t] - m);
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        float a = 0.f;
        for (int t = 0; t <= i; t++) a += expf(sc[t] - m) / sum * vp[t * d + c];
        o[((long)(b * H + h) * n + i) * d + c] = a;
    }
}

torch::Tensor rope(torch::Tensor x, torch::Tensor cos_t, torch::Tensor sin_t) {
    auto y = torch::empty_like(x);
    int total = x.numel();
    rope_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), cos_t.data_ptr<float>(), sin_t.data_ptr<float>(),
                                              y.data_ptr<float>(), total, x.size(2), x.size(3), cos_t.size(1) * 2);
    return y;
}

torch::Tensor gqa(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto o = torch::empty_like(q);
    int n = q.size(2), d = q.size(3);
    dim3 grid(n, q.size(1), q.size(0));
    gqa_kernel<<<grid, 32, n * sizeof(float)>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                                o.data_ptr<float>(), q.size(1), k.size(1), n, d, 1.f / sqrtf(d));
    return o;
}
"""

cpp_src = """
torch::Tensor rope(torch::Tensor x, torch::Tensor cos_t, torch::Tensor sin_t);
torch::Tensor gqa(torch::Tensor q, torch::Tensor k, torch::Tensor v);
"""

ops = load_inline(name="rope_gqa", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["rope", "gqa"])


class ModelNew(nn.Module):
    def __init__(self, length, rotated):
        super().__init__()
        angle = torch.arange(length)[:, None] * 50.0 ** (-torch.arange(rotated // 2) * 2.0 / rotated)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, q, k, v):
        cos, sin = self.cos.contiguous(), self.sin.contiguous()
        q = ops.rope(q.contiguous(), cos, sin)
        k = ops.rope(k.contiguous(), cos, sin)
        return ops.gqa(q, k, v.contiguous())
