# about = "The smallest value starts at zero."
# section = "mismatch"
# problem = "channel_range"
# causes = ["reduction-start-value"]
# says = ["start|initial|zero|0|minimum|begin"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

range_source = r"""
#include <torch/extension.h>

__global__ void channel_range_kernel(const float* __restrict__ x, const float* __restrict__ factor,
                                     float* __restrict__ out, int N, int C, int HW) {
    __shared__ float s_max[128];
    __shared__ float s_min[128];
    const int c = blockIdx.x;
    const int tid = threadIdx.x;
    float hi = 0.0f, lo = 0.0f;
    for (int i = tid; i < N * HW; i += blockDim.x) {
        const int n = i / HW, s = i % HW;
        const float v = x[((size_t)n * C + c) * HW + s];
        hi = fmaxf(hi, v);
        lo = fminf(lo, v);
    }
    s_max[tid] = hi;
    s_min[tid] = lo;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (tid < stride) {
            s_max[tid] = fmaxf(s_max[tid], s_max[tid + stride]);
            s_min[tid] = fminf(s_min[tid], s_min[tid + stride]);
        }
        __syncthreads();
    }
    if (tid == 0) out[c] = (s_max[0] - s_min[0]) * factor[c];
}

torch::Tensor channel_range(torch::Tensor x, torch::Tensor factor) {
    const int N = x.size(0), C = x.size(1), HW = x.size(2) * x.size(3);
    auto out = torch::empty({C}, x.options());
    channel_range_kernel<<<C, 128>>>(x.data_ptr<float>(), factor.data_ptr<float>(), out.data_ptr<float>(), N, C, HW);
    return out;
}
"""

range_ext = load_inline(
    name="channel_range_ext",
    cpp_sources="torch::Tensor channel_range(torch::Tensor x, torch::Tensor factor);",
    cuda_sources=range_source,
    functions=["channel_range"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        return range_ext.channel_range(x.contiguous(), self.factor)
