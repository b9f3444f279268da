# about = "Variances divide by the count, not one less, and the style's mean is not added."
# section = "mismatch"
# problem = "adaptive_instance_norm"
# faults = [{causes = ["biased-variance"], says = ["bias|bessel|n - 1|population|correct|divi|count"]}, {causes = ["operator-missing", "bias-missing", "operands-swapped", "base-ignored"], says = ["mean|add|missing|left out|style|offset|shift|operand"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

adain_source = r"""
#include <torch/extension.h>

__device__ float2 plane_stats(const float* p, int n) {
    // a whole warp works on one plane
    int lane = threadIdx.x;
    float s = 0.f;
    for (int i = lane; i < n; i += 32) s += p[i];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    float mean = s / n;
    float q = 0.f;
    for (int i = lane; i < n; i += 32) q += (p[i] - mean) * (p[i] - mean);
    for (int o = 16; o > 0; o >>= 1) q += __shfl_xor_sync(0xffffffff, q, o);
    return make_float2(mean, q / n);
}

__global__ void adain_kernel(const float* content, const float* style, float* out, int area, int style_area,
                             float eps) {
    const float* c = content + (size_t)blockIdx.x * area;
    const float* s = style + (size_t)blockIdx.x * style_area;
    float2 own = plane_stats(c, area);
    float2 other = plane_stats(s, style_area);
    float gain = sqrtf(other.y + eps) / sqrtf(own.y + eps);
    for (int i = threadIdx.x; i < area; i += 32) {
        out[(size_t)blockIdx.x * area + i] = (c[i] - own.x) * gain;
    }
}

torch::Tensor adain(torch::Tensor content, torch::Tensor style, double eps) {
    auto out = torch::empty_like(content);
    int planes = content.size(0) * content.size(1);
    adain_kernel<<<planes, 32>>>(content.data_ptr<float>(), style.data_ptr<float>(), out.data_ptr<float>(),
                                 content.size(2) * content.size(3), style.size(2) * style.size(3), (float)eps);
    return out;
}
"""

adain = load_inline(
    name="adain",
    cpp_sources="torch::Tensor adain(torch::Tensor content, torch::Tensor style, double eps);",
    cuda_sources=adain_source,
    functions=["adain"],
)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, content, style):
        return adain.adain(content.contiguous(), style.contiguous(), self.eps)
