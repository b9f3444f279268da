# about = "Pairs are written in the order of the lower triangle's rows; the reference goes along the upper triangle's."
# section = "mismatch"
# problem = "condensed_distances"
# causes = ["layout-misread", "wrong-coordinate", "transposed-operand", "coordinates-swapped", "inverse-permutation", "wrong-axis"]
# says = ["order|layout|triang|transpos|column|index|place|pair|permut|row|elsewhere|swap"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pdist_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void pdist_kernel(const float* __restrict__ x, float* __restrict__ out, int n, int d) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= j || j >= n) return;
    float sum = 0.0f;
    const float4* a = reinterpret_cast<const float4*>(x + i * d);
    const float4* b = reinterpret_cast<const float4*>(x + j * d);
    for (int k = 0; k < d / 4; ++k) {
        const float4 u = a[k], v = b[k];
        sum += (u.x - v.x) * (u.x - v.x) + (u.y - v.y) * (u.y - v.y);
        sum += (u.z - v.z) * (u.z - v.z) + (u.w - v.w) * (u.w - v.w);
    }
    out[j * (j - 1) / 2 + i] = sqrtf(sum);
}

torch::Tensor pdist_forward(torch::Tensor x) {
    const int n = x.size(0), d = x.size(1);
    TORCH_CHECK(d % 4 == 0, "width must be a multiple of four");
    auto out = torch::empty({n * (n - 1) / 2}, x.options());
    dim3 block(8, 8);
    dim3 grid((n + 7) / 8, (n + 7) / 8);
    pdist_kernel<<<grid, block>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, d);
    return out;
}
"""

pdist_ext = load_inline(
    name="pdist_forward_ext",
    cpp_sources="torch::Tensor pdist_forward(torch::Tensor x);",
    cuda_sources=pdist_source,
    functions=["pdist_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return pdist_ext.pdist_forward(x.contiguous())
