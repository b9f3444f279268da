# about = "A right answer: a warp per row, columns in registers, one reciprocal."
# section = "right"
# problem = "masked_softmax"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
constexpr int PER_LANE = 4;

__global__ void row_softmax(const float* __restrict__ x, const bool* __restrict__ keep, float* __restrict__ y, int rows, int columns) {
    const int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const int lane = threadIdx.x & 31;
    if (row >= rows) return;
    float held[PER_LANE];
    float top = -INFINITY;
    #pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        const int c = lane + 32 * i;
        held[i] = c < columns && keep[row * columns + c] ? x[row * columns + c] : -INFINITY;
        top = fmaxf(top, held[i]);
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    float sum = 0.f;
    #pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        held[i] = expf(held[i] - top);
        sum += held[i];
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float inverse = __frcp_rn(sum);
    #pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        const int c = lane + 32 * i;
        if (c < columns) y[row * columns + c] = held[i] * inverse;
    }
}

torch::Tensor row_softmax_cuda(torch::Tensor x, torch::Tensor keep) {
    const int columns = x.size(2), rows = x.numel() / columns;
    TORCH_CHECK(columns <= 32 * PER_LANE, "too many columns");
    auto y = torch::empty_like(x);
    row_softmax<<<(rows + 1) / 2, 64>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), y.data_ptr<float>(), rows, columns);
    return y;
}
"""

ext = load_inline("row_softmax", "torch::Tensor row_softmax_cuda(torch::Tensor x, torch::Tensor keep);", source, functions=["row_softmax_cuda"])


class ModelNew(nn.Module):
    def forward(self, x, keep):
        return ext.row_softmax_cuda(x.contiguous(), keep.contiguous())
