# about = "The key head of a query head is its number modulo the groups, where neighbouring heads share one."
# section = "mismatch"
# problem = "gqa_relative_bias"
# causes = ["groups-ignored", "wrong-channel", "layout-misread", "index-ignored", "wrong-axis", "index-off-by-one", "transposed-operand"]
# says = ["group|head|interleav|channel|order|layout|stride|index|axis|dim"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

// One block per (query row, head, batch); scores live in dynamic shared memory.
__global__ void gqa_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                           const float* __restrict__ bias, float* __restrict__ out,
                           int heads, int groups, int steps, int width, int furthest, float scale) {
    extern __shared__ float scores[];
    __shared__ float red[64];
    const int row = blockIdx.x, head = blockIdx.y, b = blockIdx.z, tid = threadIdx.x;
    const int kv_head = head % groups;
    const float* q_row = q + ((size_t)(b * heads + head) * steps + row) * width;
    const float* k_base = k + (size_t)(b * groups + kv_head) * steps * width;
    const float* v_base = v + (size_t)(b * groups + kv_head) * steps * width;

    float local_max = -INFINITY;
    for (int j = tid; j <= row; j += blockDim.x) {
        float dot = 0.f;
        for (int d = 0; d < width; ++d) dot += q_row[d] * k_base[j * width + d];
        float s = dot * scale + bias[head * (furthest + 1) + min(row - j, furthest)];
        scores[j] = s;
        local_max = fmaxf(local_max, s);
    }
    red[tid] = local_max;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] = fmaxf(red[tid], red[tid + s]);
        __syncthreads();
    }
    const float row_max = red[0];
    __syncthreads();
    float local_sum = 0.f;
    for (int j = tid; j <= row; j += blockDim.x) {
        float e = expf(scores[j] - row_max);
        scores[j] = e;
        local_sum += e;
    }
    red[tid] = local_sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] += red[tid + s];
        __syncthreads();
    }
    const float inv = 1.f / red[0];
    for (int d = tid; d < width; d += blockDim.x) {
        float acc = 0.f;
        for (int j = 0; j <= row; ++j) acc += scores[j] * v_base[j * width + d];
        out[((size_t)(b * heads + head) * steps + row) * width + d] = acc * inv;
    }
}

torch::Tensor gqa_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias) {
    auto out = torch::empty_like(q);
    const int batch = q.size(0), heads = q.size(1), steps = q.size(2), width = q.size(3), groups = k.size(1);
    const int furthest = bias.size(1) - 1;
    dim3 grid(steps, heads, batch);
    gqa_kernel<<<grid, 64, steps * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(),
        heads, groups, steps, width, furthest, 1.0f / sqrtf((float)width));
    return out;
}
"""

cpp_src = "torch::Tensor gqa_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias);"

gqa = load_inline(name="gqa_rel", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["gqa_forward"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, heads, furthest):
        super().__init__()
        self.furthest = furthest
        self.distance_bias = nn.Parameter(torch.randn(heads, furthest + 1))

    def forward(self, q, k, v):
        return gqa.gqa_forward(q.contiguous(), k.contiguous(), v.contiguous(), self.distance_bias.contiguous())
