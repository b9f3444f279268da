# about = "Value and gate are taken alternately, not from the two halves."
# section = "mismatch"
# problem = "geglu"
# causes = ["layout-misread", "wrong-channel"]
# says = ["interleav|half|halves|altern|even|layout|ind|chunk|split|order"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

geglu_src = r"""
#include <cuda_runtime.h>
#include <math.h>

__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }

__global__ void geglu_kernel(const float2* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 both = x[i];
    y[i] = both.x * gelu(both.y);
}

torch::Tensor geglu(torch::Tensor x) {
    auto sizes = x.sizes().vec();
    sizes.back() /= 2;
    auto y = torch::empty(sizes, x.options());
    int n = y.numel();
    geglu_kernel<<<(n + 255) / 256, 256>>>(reinterpret_cast<const float2*>(x.data_ptr<float>()), y.data_ptr<float>(), n);
    return y;
}
"""

geglu = load_inline(
    name="geglu",
    cpp_sources="torch::Tensor geglu(torch::Tensor x);",
    cuda_sources=geglu_src,
    functions=["geglu"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return geglu.geglu(x.contiguous())
