# about = "The corner of a point is its place truncated towards zero, which is one too far for places below zero."
# section = "mismatch"
# problem = "deformable_points"
# causes = ["wrong-rounding", "truncated-to-integer", "wrong-coordinate", "index-off-by-one"]
# says = ["trunc|round|floor|negative|zero|border|integer|fraction|coordinate"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__device__ float fetch(const float* value, int y, int x, int rows, int cols, int step) {
    if (y < 0 || y >= rows || x < 0 || x >= cols) return 0.0f;
    return value[(y * cols + x) * step];
}

__device__ float bilinear(const float* value, float py, float px, int rows, int cols, int step) {
    int y0 = (int)py, x0 = (int)px;
    float wy = py - y0, wx = px - x0;
    float v00 = fetch(value, y0, x0, rows, cols, step);
    float v01 = fetch(value, y0, x0 + 1, rows, cols, step);
    float v10 = fetch(value, y0 + 1, x0, rows, cols, step);
    float v11 = fetch(value, y0 + 1, x0 + 1, rows, cols, step);
    return (1.0f - wy) * ((1.0f - wx) * v00 + wx * v01) + wy * ((1.0f - wx) * v10 + wx * v11);
}

// one thread per (batch, query, head, channel)
__global__ void deform_attn_kernel(const float* __restrict__ query, const float* __restrict__ value,
                                   const float* __restrict__ places, const float* __restrict__ logits,
                                   const float* __restrict__ gain, float* __restrict__ out,
                                   int B, int Q, int M, int D, int P, int rows, int cols) {
    const int total = B * Q * M * D;
    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < total; idx += blockDim.x * gridDim.x) {
        const int d = idx % D;
        const int m = (idx / D) % M;
        const int q = (idx / (D * M)) % Q;
        const int b = idx / (D * M * Q);
        const float* lg = logits + ((b * Q + q) * M + m) * P;
        const float* loc = places + ((b * Q + q) * M + m) * P * 2;
        const float* val = value + (size_t)b * rows * cols * M * D + m * D + d;

        float mx = lg[0];
        for (int p = 1; p < P; ++p) mx = fmaxf(mx, lg[p]);
        float denom = 0.0f;
        for (int p = 0; p < P; ++p) denom += expf(lg[p] - mx);

        float acc = 0.0f;
        for (int p = 0; p < P; ++p) {
            const float px = loc[2 * p] * cols - 0.5f;
            const float py = loc[2 * p + 1] * rows - 0.5f;
            acc += expf(lg[p] - mx) / denom * bilinear(val, py, px, rows, cols, M * D);
        }
        out[idx] = query[idx] + gain[m] * acc;
    }
}

torch::Tensor deform_attn(torch::Tensor query, torch::Tensor value, torch::Tensor places, torch::Tensor logits,
                          torch::Tensor gain, int64_t rows, int64_t cols) {
    const int B = places.size(0), Q = places.size(1), M = places.size(2), P = places.size(3), D = value.size(3);
    auto out = torch::empty_like(query);
    const int threads = 128;
    const int blocks = (B * Q * M * D + threads - 1) / threads;
    deform_attn_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        query.data_ptr<float>(), value.data_ptr<float>(), places.data_ptr<float>(), logits.data_ptr<float>(),
        gain.data_ptr<float>(), out.data_ptr<float>(), B, Q, M, D, P, (int)rows, (int)cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""

cpp_code = """
torch::Tensor deform_attn(torch::Tensor query, torch::Tensor value, torch::Tensor places, torch::Tensor logits,
                          torch::Tensor gain, int64_t rows, int64_t cols);
"""

deform = load_inline(name="deform_attn", cpp_sources=cpp_code, cuda_sources=cuda_code, functions=["deform_attn"])


class ModelNew(nn.Module):
    def __init__(self, rows, columns, heads):
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.gain = nn.Parameter(torch.rand(heads) + 0.5)

    def forward(self, query, value, places, logits):
        return deform.deform_attn(query.contiguous(), value.contiguous(), places.contiguous(), logits.contiguous(),
                                  self.gain, self.rows, self.columns)
