import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ms_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

// A warp per row, four rows per block.
__global__ void __launch_bounds__(128) masked_softmax_warp(const float* __restrict__ s, const bool* __restrict__ mask,
                                                           float* __restrict__ out, long rows, int rows_per_batch, int cols) {
    const long row = (long)blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;     // whole warps leave together
    const bool* mk = mask + (row / rows_per_batch) * cols;
    const float* in = s + row * cols;
    float* o = out + row * cols;
    const int lane = threadIdx.x;

    float mx = -FLT_MAX;
    for (int c = lane; c < cols; c += 32) mx = fmaxf(mx, mk[c] ? -1e9f : in[c]);
    for (int d = 16; d > 0; d /= 2) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, d));

    float sum = 0.f;
    for (int c = lane; c < cols; c += 32) sum += expf((mk[c] ? -1e9f : in[c]) - mx);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);

    const float inv = 1.f / sum;
    for (int c = lane; c < cols; c += 32) o[c] = expf((mk[c] ? -1e9f : in[c]) - mx) * inv;
}

torch::Tensor masked_softmax(torch::Tensor scores, torch::Tensor mask) {
    TORCH_CHECK(scores.dim() == 4 && mask.dim() == 2, "shapes (B,H,L,S) and (B,S)");
    TORCH_CHECK(mask.scalar_type() == torch::kBool, "boolean mask");
    auto sc = scores.contiguous();
    auto mc = mask.contiguous();
    auto out = torch::empty_like(sc);
    const int cols = sc.size(3);
    const int per_batch = sc.size(1) * sc.size(2);
    const long rows = (long)sc.size(0) * per_batch;
    masked_softmax_warp<<<(rows + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        sc.data_ptr<float>(), mc.data_ptr<bool>(), out.data_ptr<float>(), rows, per_batch, cols);
    return out;
}
"""

ms = load_inline(name="masked_softmax_bool", cpp_sources="torch::Tensor masked_softmax(torch::Tensor scores, torch::Tensor mask);",
                 cuda_sources=ms_src, functions=["masked_softmax"], extra_cuda_cflags=["-O3"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, scores, pad_mask):
        return ms.masked_softmax(scores, pad_mask)
