# about = "The sum of squares without its root."
# section = "mismatch"
# problem = "lp_pool"
# causes = ["root-omitted"]
# says = ["root|sqrt|squar"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="norm_pool",
    cpp_sources="torch::Tensor norm_pool(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>

__global__ void norm_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int H, int W, int OH, int OW) {
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y;
    int plane = blockIdx.z;
    if (ow >= OW) return;
    const float* top = x + ((size_t)plane * H + oh * 2) * W + ow * 2;
    float acc = 0.f;
#pragma unroll
    for (int r = 0; r < 3; ++r) {
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            float v = top[r * W + c];
            acc = __fmaf_rn(v, v, acc);
        }
    }
    y[((size_t)plane * OH + oh) * OW + ow] = acc;
}

torch::Tensor norm_pool(torch::Tensor x) {
    int H = x.size(2), W = x.size(3);
    int OH = (H - 3) / 2 + 1, OW = (W - 3) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), OH, OW}, x.options());
    dim3 grid((OW + 31) / 32, OH, x.size(0) * x.size(1));
    norm_pool_kernel<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), H, W, OH, OW);
    return y;
}
""",
    functions=["norm_pool"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.norm_pool(x.contiguous())
