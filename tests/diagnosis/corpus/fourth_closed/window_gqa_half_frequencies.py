# about = "The rotary exponent lacks its factor two: frequencies fall half as fast as the reference's."
# section = "mismatch"
# problem = "window_gqa_rotary"
# causes = ["wrong-coefficient", "wrong-divisor", "scale-missing", "wrong-coordinate"]
# says = ["frequen|rota|rope|angle|coefficient|constant|factor|base|exponent|divi|position|scal"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

// x: [planes, T, D] -> rotated copy, one thread per pair
__global__ void rope_kernel(const float* x, float* out, int planes, int T, int D, float base) {
    int half = D / 2;
    int n = planes * T * half;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int j = i % half;
        int row = i / half;
        int t = row % T;
        float freq = powf(base, -(float)j / D);
        float angle = t * freq;
        float c = cosf(angle), s = sinf(angle);
        float a = x[row * D + j];
        float b = x[row * D + j + half];
        out[row * D + j] = a * c - b * s;
        out[row * D + j + half] = b * c + a * s;
    }
}

#define MAX_D 64

// one thread per query, online softmax over the keys of its window
__global__ void attn_kernel(const float* q, const float* k, const float* v, float* out, int B, int H, int G, int T, int D,
                            int window) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= T) return;
    int b = blockIdx.y / H;
    int h = blockIdx.y % H;
    int g = h / (H / G);
    const float* qi = q + ((b * H + h) * T + i) * D;
    const float* kg = k + (b * G + g) * T * D;
    const float* vg = v + (b * G + g) * T * D;
    float scale = rsqrtf((float)D);
    float acc[MAX_D];
    for (int d = 0; d < D; d++) acc[d] = 0.0f;
    float m = -INFINITY, l = 0.0f;
    int start = max(0, i - window + 1);
    for (int j = start; j <= i; j++) {
        float s = 0.0f;
        for (int d = 0; d < D; d++) s += qi[d] * kg[j * D + d];
        s *= scale;
        float m_new = fmaxf(m, s);
        float alpha = expf(m - m_new);
        float p = expf(s - m_new);
        l = l * alpha + p;
        for (int d = 0; d < D; d++) acc[d] = acc[d] * alpha + p * vg[j * D + d];
        m = m_new;
    }
    float* o = out + (b * T + i) * H * D + h * D;
    for (int d = 0; d < D; d++) o[d] = acc[d] / l;
}

torch::Tensor window_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window, double base) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), G = k.size(1);
    auto qr = torch::empty_like(q);
    auto kr = torch::empty_like(k);
    auto out = torch::empty({B, T, H * D}, q.options());
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    rope_kernel<<<8, 128, 0, stream>>>(q.data_ptr<float>(), qr.data_ptr<float>(), B * H, T, D, (float)base);
    rope_kernel<<<4, 128, 0, stream>>>(k.data_ptr<float>(), kr.data_ptr<float>(), B * G, T, D, (float)base);
    dim3 grid((T + 31) / 32, B * H);
    attn_kernel<<<grid, 32, 0, stream>>>(qr.data_ptr<float>(), kr.data_ptr<float>(), v.data_ptr<float>(),
                                         out.data_ptr<float>(), B, H, G, T, D, (int)window);
    return out;
}
"""

cpp_src = "torch::Tensor window_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window, double base);"

module = load_inline(
    name="window_attention",
    cpp_sources=cpp_src,
    cuda_sources=cuda_src,
    functions=["window_attention"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, window, base):
        super().__init__()
        self.window = window
        self.base = base

    def forward(self, q, k, v):
        return module.window_attention(q.contiguous(), k.contiguous(), v.contiguous(), self.window, self.base)
