# about = "Keeps the largest values; the reference keeps those of largest magnitude."
# section = "mismatch"
# problem = "topk_magnitude"
# causes = ["operator-missing", "square-omitted", "activation-missing", "sort-order", "wrong-rank"]
# says = ["magnitude|abs|sign|largest|negative|left out|missing|order|selected|chosen"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

topk_cuda = r"""
#include <torch/extension.h>
#include <float.h>

__global__ void keep_topk_kernel(const float* __restrict__ x, float* __restrict__ out, int cols, int kept) {
    __shared__ float vals[64];
    __shared__ float best[64];
    __shared__ int best_idx[64];
    const int row = blockIdx.x;
    const int tid = threadIdx.x;
    const float mine = tid < cols ? x[row * cols + tid] : -FLT_MAX;
    vals[tid] = mine;
    bool selected = false;

    for (int r = 0; r < kept; ++r) {
        best[tid] = vals[tid];
        best_idx[tid] = tid;
        __syncthreads();
        for (int s = 32; s > 0; s >>= 1) {
            if (tid < s && best[tid + s] > best[tid]) {
                best[tid] = best[tid + s];
                best_idx[tid] = best_idx[tid + s];
            }
            __syncthreads();
        }
        if (tid == best_idx[0]) {
            selected = true;
            vals[tid] = -FLT_MAX;
        }
        __syncthreads();
    }
    if (tid < cols) out[row * cols + tid] = selected ? mine : 0.0f;
}

torch::Tensor keep_topk(torch::Tensor x, int64_t kept) {
    const int rows = x.size(0), cols = x.size(1);
    TORCH_CHECK(cols <= 64, "at most 64 columns");
    auto out = torch::empty_like(x);
    keep_topk_kernel<<<rows, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), cols, (int)kept);
    return out;
}
"""

topk_ext = load_inline(
    name="keep_topk_ext",
    cpp_sources="torch::Tensor keep_topk(torch::Tensor x, int64_t kept);",
    cuda_sources=topk_cuda,
    functions=["keep_topk"],
)


class ModelNew(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        return topk_ext.keep_topk(x.contiguous(), self.kept)
