# about = "Two warps share a row and only the product of the first is returned."
# section = "mismatch"
# problem = "prod_rows"
# causes = ["partial-sums-not-combined", "lost-lanes", "lost-last-block"]
# says = ["warp|32|lane|partial|combin|last|tail|first"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__inline__ __device__ float warp_prod(float v) {
    #pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) v *= __shfl_down_sync(0xffffffff, v, mask);
    return v;
}

__global__ void prod_kernel(const float* __restrict__ in, float* __restrict__ out, int width) {
    float v = 1.0f;
    for (int j = threadIdx.x; j < width; j += blockDim.x) v *= in[blockIdx.x * width + j];
    v = warp_prod(v);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

torch::Tensor prod_last(torch::Tensor in) {
    const int width = in.size(-1);
    auto out = torch::empty({in.size(0), in.size(1)}, in.options());
    prod_kernel<<<in.size(0) * in.size(1), 64>>>(in.data_ptr<float>(), out.data_ptr<float>(), width);
    return out;
}
"""
prod_ext = load_inline(name="prod_last_ext", cpp_sources="torch::Tensor prod_last(torch::Tensor in);", cuda_sources=cuda_source, functions=["prod_last"], verbose=False)


class ModelNew(nn.Module):
    def forward(self, x):
        return prod_ext.prod_last(x.contiguous())
