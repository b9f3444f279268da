# about = "The offset of the sample is left out: all gather from the first."
# section = "mismatch"
# problem = "gather_middle"
# causes = ["first-batch-only", "index-ignored", "layout-misread"]
# says = ["batch|sample|first|offset"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void gather_scale(const float* __restrict__ x, const int64_t* __restrict__ index, const float* __restrict__ weight,
                             float* __restrict__ out, int picks, int width) {
    int w = threadIdx.x;
    int p = blockIdx.x;
    int b = blockIdx.y;
    if (w >= width) return;
    int o = (b * picks + p) * width + w;
    out[o] = x[index[o] * width + w] * weight[w];
}

torch::Tensor gather_scale_forward(torch::Tensor x, torch::Tensor index, torch::Tensor weight) {
    auto out = torch::empty({index.size(0), index.size(1), index.size(2)}, x.options());
    dim3 grid(index.size(1), index.size(0));
    int threads = ((index.size(2) + 31) / 32) * 32;
    gather_scale<<<grid, threads>>>(x.data_ptr<float>(), index.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(),
                                    index.size(1), index.size(2));
    return out;
}
"""
gather = load_inline(name="gather_scale", cpp_sources="torch::Tensor gather_scale_forward(torch::Tensor x, torch::Tensor index, torch::Tensor weight);", cuda_sources=cuda_src, functions=["gather_scale_forward"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, index):
        return gather.gather_scale_forward(x.contiguous(), index.contiguous(), self.weight)
