# about = "Right: the quadratic form, where every query weighs every real key by the product of their features."
# section = "right"
# problem = "linear_attention_padded"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ inline float positive(float x) { return fmaxf(x, 0.f) + expf(fminf(x, 0.f)); }

// A warp per query: lanes hold keys for the weights, then hold values for the sums.
__global__ void pairs(const float* q, const float* k, const float* v, const int64_t* lengths, const float* skip, float* y, int rows,
                      int heads, int steps, int width, int values) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    const int bh = row / steps, length = (int)lengths[bh / heads];
    float total = 0.f, mixed = 0.f;
    for (int first = 0; first < length; first += 32) {
        float weight = 0.f;
        if (first + lane < length)
            for (int d = 0; d < width; ++d)
                weight += positive(q[row * width + d]) * positive(k[(bh * steps + first + lane) * width + d]);
        total += weight;
        const int here = min(32, length - first);
        for (int j = 0; j < here; ++j) {
            const float w = __shfl_sync(0xffffffffu, weight, j);
            if (lane < values) mixed += w * v[(bh * steps + first + j) * values + lane];
        }
    }
    for (int o = 16; o > 0; o >>= 1) total += __shfl_xor_sync(0xffffffffu, total, o);
    if (lane < values) y[row * values + lane] = mixed / total + skip[bh % heads] * v[row * values + lane];
}

torch::Tensor pairs_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip) {
    const int heads = q.size(1), steps = q.size(2), rows = q.size(0) * heads * steps;
    TORCH_CHECK(v.size(3) <= 32, "values of up to 32 features");
    auto y = torch::empty_like(v);
    pairs<<<(rows + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(), skip.data_ptr<float>(),
        y.data_ptr<float>(), rows, heads, steps, q.size(3), v.size(3));
    return y;
}
"""
ext = load_inline(
    name="all_pairs",
    cpp_sources="torch::Tensor pairs_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip);",
    cuda_sources=SRC,
    functions=["pairs_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.zeros(heads))

    def forward(self, q, k, v, lengths):
        return ext.pairs_forward(q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous(), self.skip)
