# about = "When a tile of keys raises the maximum, the accumulated values are rescaled but the denominator is not."
# section = "mismatch"
# problem = "gqa_relative_bias"
# causes = ["rescale-missing", "wrong-combine", "wrong-divisor", "state-not-updated"]
# says = ["rescal|maximum|earlier|online|denominator|divis|divid|sum|combin"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#define TILE 8
#define MAX_D 16

// Flash-style: a thread per query, keys and values staged tile by tile.
__global__ void flash_gqa(const float* Q, const float* K, const float* V, const float* bias, float* O,
                          int H, int G, int T, int D, int buckets) {
    __shared__ float ks[TILE][MAX_D];
    __shared__ float vs[TILE][MAX_D];
    int h = blockIdx.y, b = blockIdx.z;
    int kv = b * G + h / (H / G);
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float scale = rsqrtf((float)D);
    float q[MAX_D], acc[MAX_D];
    for (int d = 0; d < D; ++d) {
        q[d] = t < T ? Q[((b * H + h) * T + t) * D + d] * scale : 0.0f;
        acc[d] = 0.0f;
    }
    float m = -INFINITY, l = 0.0f;
    for (int start = 0; start < T; start += TILE) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * D; i += blockDim.x) {
            int j = start + i / D;
            ks[i / D][i % D] = j < T ? K[(kv * T + j) * D + i % D] : 0.0f;
            vs[i / D][i % D] = j < T ? V[(kv * T + j) * D + i % D] : 0.0f;
        }
        __syncthreads();
        float s[TILE];
        float tile_max = m;
        for (int jj = 0; jj < TILE; ++jj) {
            int j = start + jj;
            s[jj] = -INFINITY;
            if (j < T && j <= t) {
                float dot = 0.0f;
                for (int d = 0; d < D; ++d) dot += q[d] * ks[jj][d];
                s[jj] = dot + bias[h * buckets + min(t - j, buckets - 1)];
            }
            tile_max = fmaxf(tile_max, s[jj]);
        }
        float correction = __expf(m - tile_max);
        for (int d = 0; d < D; ++d) acc[d] *= correction;
        for (int jj = 0; jj < TILE; ++jj) {
            float p = __expf(s[jj] - tile_max);
            l += p;
            for (int d = 0; d < D; ++d) acc[d] += p * vs[jj][d];
        }
        m = tile_max;
    }
    if (t < T)
        for (int d = 0; d < D; ++d) O[((b * H + h) * T + t) * D + d] = acc[d] / l;
}

torch::Tensor flash_gqa_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias) {
    auto o = torch::empty_like(q);
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3);
    TORCH_CHECK(D <= MAX_D, "head width too large");
    dim3 grid((T + 31) / 32, H, B);
    flash_gqa<<<grid, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), bias.data_ptr<float>(), o.data_ptr<float>(),
        H, k.size(1), T, D, bias.size(1));
    return o;
}
"""

flash = load_inline(
    name="flash_gqa_bias",
    cpp_sources="torch::Tensor flash_gqa_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias);",
    cuda_sources=source,
    functions=["flash_gqa_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, furthest):
        super(ModelNew, self).__init__()
        self.distance_bias = nn.Parameter(torch.randn(heads, furthest + 1))

    def forward(self, q, k, v):
        return flash.flash_gqa_cuda(q.contiguous(), k.contiguous(), v.contiguous(), self.distance_bias)
