# about = "The masked sum is divided by the whole length."
# section = "mismatch"
# problem = "masked_mean"
# causes = ["wrong-divisor"]
# says = ["divi|count|length|mask"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pool_src = r"""
__global__ void masked_pool(const float* __restrict__ x, const bool* __restrict__ keep, float* __restrict__ out,
                            int length, int width) {
    int b = blockIdx.y;
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= width) return;
    float acc = 0.0f;
    for (int t = 0; t < length; ++t) {
        if (keep[b * length + t]) acc += x[(b * length + t) * width + d];
    }
    out[b * width + d] = acc / fmaxf((float)length, 1.0f);
}

torch::Tensor masked_pool_forward(torch::Tensor x, torch::Tensor keep) {
    int B = x.size(0), L = x.size(1), D = x.size(2);
    auto out = torch::empty({B, D}, x.options());
    masked_pool<<<dim3((D + 31) / 32, B), 32>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), out.data_ptr<float>(), L, D);
    return out;
}
"""

masked_pool = load_inline(
    name="masked_pool",
    cpp_sources="torch::Tensor masked_pool_forward(torch::Tensor x, torch::Tensor keep);",
    cuda_sources=pool_src,
    functions=["masked_pool_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, keep):
        return masked_pool.masked_pool_forward(x.contiguous(), keep.contiguous())
