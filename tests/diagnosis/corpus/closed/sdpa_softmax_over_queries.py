# about = "The softmax runs over the queries, not over the keys."
# section = "mismatch"
# problem = "attention_plain"
# causes = ["softmax-wrong-axis", "wrong-axis"]
# says = ["dim|axis|quer|row|column"]
# stage = ["verify"]

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#define TILE 16

__global__ void qk_kernel(const float* q, const float* k, float* s, int n, int m, int d, float scale) {
    __shared__ float tq[TILE][TILE + 1], tk[TILE][TILE + 1];
    int b = blockIdx.z;
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    int krow = blockIdx.x * TILE + threadIdx.y;
    float sum = 0.f;
    for (int t = 0; t < d; t += TILE) {
        int c = t + threadIdx.x;
        tq[threadIdx.y][threadIdx.x] = (row < n && c < d) ? q[(b * n + row) * d + c] : 0.f;
        tk[threadIdx.y][threadIdx.x] = (krow < m && c < d) ? k[(b * m + krow) * d + c] : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tq[threadIdx.y][i] * tk[threadIdx.x][i];
        __syncthreads();
    }
    if (row < n && col < m) s[(b * n + row) * m + col] = sum * scale;
}

__global__ void normalize_kernel(float* s, int n, int m) {
    float* p = s + blockIdx.y * n * m;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= m) return;
    float top = -INFINITY, sum = 0.f;
    for (int r = 0; r < n; ++r) top = fmaxf(top, p[r * m + c]);
    for (int r = 0; r < n; ++r) sum += expf(p[r * m + c] - top);
    for (int r = 0; r < n; ++r) p[r * m + c] = expf(p[r * m + c] - top) / sum;
}

__global__ void pv_kernel(const float* p, const float* v, float* o, int n, int m, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * d) return;
    int b = blockIdx.y, r = i / d, c = i % d;
    float sum = 0.f;
    for (int j = 0; j < m; ++j) sum += p[(b * n + r) * m + j] * v[(b * m + j) * d + c];
    o[b * n * d + i] = sum;
}

torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale) {
    int bh = q.size(0) * q.size(1), n = q.size(2), d = q.size(3), m = k.size(2);
    auto s = torch::empty({bh, n, m}, q.options());
    auto o = torch::empty_like(q);
    dim3 block(TILE, TILE), grid((m + TILE - 1) / TILE, (n + TILE - 1) / TILE, bh);
    qk_kernel<<<grid, block>>>(q.data_ptr<float>(), k.data_ptr<float>(), s.data_ptr<float>(), n, m, d, (float)scale);
    normalize_kernel<<<dim3((m + 63) / 64, bh), 64>>>(s.data_ptr<float>(), n, m);
    pv_kernel<<<dim3((n * d + 127) / 128, bh), 128>>>(s.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), n, m, d);
    return o;
}
"""

module = load_inline(
    name="three_step_attention",
    cpp_sources="torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale);",
    cuda_sources=SOURCE,
    functions=["run"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return module.run(q.contiguous(), k.contiguous(), v.contiguous(), 1.0 / math.sqrt(q.shape[-1]))
