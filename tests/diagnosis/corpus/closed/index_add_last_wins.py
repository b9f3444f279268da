# about = "Of several rows that go to the same place only the last one counts."
# section = "mismatch"
# problem = "index_add_scaled"
# causes = ["scatter-overwrites"]
# says = ["overwrit|last|lost|same (row|place)|accumul|duplicate|several|repeat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>

__global__ void copy_base(const float4* a, float4* b, int quads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < quads) b[i] = a[i];
}

// a thread owns a column, so that no two threads meet in one element
__global__ void add_columns(const float* __restrict__ base, const int64_t* __restrict__ index, const float* __restrict__ src,
                            float* __restrict__ out, float alpha, int edges, int width) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= width) return;
    for (int e = 0; e < edges; ++e) {
        int64_t row = index[e];
        out[row * width + col] = base[row * width + col] + alpha * src[e * width + col];
    }
}

torch::Tensor index_add(torch::Tensor base, torch::Tensor index, torch::Tensor src, float alpha) {
    auto out = torch::empty_like(base);
    int quads = base.numel() / 4;
    copy_base<<<(quads + 63) / 64, 64>>>(reinterpret_cast<const float4*>(base.data_ptr<float>()), reinterpret_cast<float4*>(out.data_ptr<float>()), quads);
    add_columns<<<1, 32>>>(base.data_ptr<float>(), index.data_ptr<int64_t>(), src.data_ptr<float>(), out.data_ptr<float>(), alpha, index.numel(), base.size(1));
    return out;
}
"""
op = load_inline(name="index_add_op", cpp_sources="torch::Tensor index_add(torch::Tensor base, torch::Tensor index, torch::Tensor src, float alpha);", cuda_sources=code, functions=["index_add"])


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, base, index, source):
        return op.index_add(base.contiguous(), index.contiguous(), source.contiguous(), self.alpha)
