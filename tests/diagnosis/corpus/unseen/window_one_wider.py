# about = "The window holds one key more than the reference's: the lower border is off by one."
# section = "mismatch"
# problem = "attention_window"
# causes = ["mask-shifted"]
# says = ["window|border|diagonal|mask|band|off by one|one key"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp = "torch::Tensor window_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window);"

cuda = r"""
#include <float.h>
#define TILE 8

__global__ void window_attention_kernel(const float* __restrict__ Q, const float* __restrict__ K,
                                        const float* __restrict__ V, float* __restrict__ O,
                                        int N, int D, int window, float scale) {
    __shared__ float sK[TILE][17];
    __shared__ float sV[TILE][17];
    const int bh = blockIdx.y;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const long base = (long)bh * N * D;
    const int first_query = blockIdx.x * blockDim.x;
    const int last_query = min(N, first_query + (int)blockDim.x) - 1;
    const int begin = max(0, first_query - window) / TILE * TILE;

    float acc[16];
    for (int c = 0; c < D; ++c) acc[c] = 0.f;
    float m = -FLT_MAX, l = 0.f;

    for (int t = begin; t <= last_query; t += TILE) {
        for (int e = threadIdx.x; e < TILE * D; e += blockDim.x) {
            int r = e / D, c = e % D;
            sK[r][c] = t + r < N ? K[base + (t + r) * D + c] : 0.f;
            sV[r][c] = t + r < N ? V[base + (t + r) * D + c] : 0.f;
        }
        __syncthreads();
        if (i < N) {
            for (int r = 0; r < TILE; ++r) {
                int j = t + r;
                if (j > i || j < i - window) continue;
                float s = 0.f;
                for (int c = 0; c < D; ++c) s += Q[base + i * D + c] * sK[r][c];
                s *= scale;
                float m_new = fmaxf(m, s);
                float alpha = expf(m - m_new), p = expf(s - m_new);
                l = l * alpha + p;
                for (int c = 0; c < D; ++c) acc[c] = acc[c] * alpha + p * sV[r][c];
                m = m_new;
            }
        }
        __syncthreads();
    }
    if (i < N)
        for (int c = 0; c < D; ++c) O[base + i * D + c] = acc[c] / l;
}

torch::Tensor window_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window) {
    const int N = q.size(2), D = q.size(3);
    TORCH_CHECK(D <= 16);
    auto o = torch::empty_like(q);
    dim3 grid((N + 15) / 16, q.size(0) * q.size(1));
    window_attention_kernel<<<grid, 16>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        o.data_ptr<float>(), N, D, (int)window, 1.f / sqrtf((float)D));
    return o;
}
"""

window_ext = load_inline(name="window_attention", cpp_sources=cpp, cuda_sources=cuda, functions=["window_attention"])


class ModelNew(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, q, k, v):
        return window_ext.window_attention(q.contiguous(), k.contiguous(), v.contiguous(), self.window)
