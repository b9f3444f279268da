# about = "The dropped steps take part in the variance as zeros: masked before the mean is subtracted, not after."
# section = "mismatch"
# problem = "masked_standardize"
# causes = ["mask-wrong-place", "mask-ignored", "wrong-fill-value"]
# says = ["mask|kept|dropped|varian|deviation|fill"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void masked_standardize_kernel(const float* __restrict__ x, const bool* __restrict__ keep,
                                          float* __restrict__ y, int T, int W, float eps) {
    extern __shared__ float kept[];
    const int b = blockIdx.x;
    const int w = threadIdx.x;
    for (int t = threadIdx.x; t < T; t += blockDim.x) kept[t] = keep[b * T + t] ? 1.0f : 0.0f;
    __syncthreads();
    if (w >= W) return;
    const float* xb = x + (size_t)b * T * W + w;
    float* yb = y + (size_t)b * T * W + w;

    float count = 0.0f, sum = 0.0f;
    for (int t = 0; t < T; ++t) {
        count += kept[t];
        sum += xb[t * W] * kept[t];
    }
    const float mean = sum / count;
    float sq = 0.0f;
    for (int t = 0; t < T; ++t) {
        const float d = xb[t * W] * kept[t] - mean;
        sq += d * d;
    }
    const float inv = 1.0f / sqrtf(sq / (count - 1.0f) + eps);
    for (int t = 0; t < T; ++t) yb[t * W] = (xb[t * W] - mean) * inv * kept[t];
}

torch::Tensor masked_standardize(torch::Tensor x, torch::Tensor keep) {
    const int B = x.size(0), T = x.size(1), W = x.size(2);
    auto y = torch::empty_like(x);
    masked_standardize_kernel<<<B, 32, T * sizeof(float)>>>(x.data_ptr<float>(), keep.data_ptr<bool>(),
                                                            y.data_ptr<float>(), T, W, 1e-5f);
    return y;
}
"""

std_ext = load_inline(
    name="masked_standardize_ext",
    cpp_sources="torch::Tensor masked_standardize(torch::Tensor x, torch::Tensor keep);",
    cuda_sources=source,
    functions=["masked_standardize"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, keep):
        return std_ext.masked_standardize(x.contiguous(), keep.contiguous())
