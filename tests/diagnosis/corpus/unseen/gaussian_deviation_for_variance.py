# about = "The given variance is taken for a deviation and squared."
# section = "mismatch"
# problem = "gaussian_likelihood"
# causes = ["root-omitted", "operator-doubled", "wrong-coefficient", "wrong-norm-order", "scale-doubled", "wrong-divisor", "square-omitted"]
# says = ["square|varian|deviation|root|twice|factor|coefficient|0\\.5|half|divis"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <cuda_runtime.h>

__device__ float nll_one(float m, float t, float s, float floor_value) {
    s = fmaxf(s, floor_value);
    float z = (t - m) / s;
    return logf(s) + 0.5f * z * z;
}

__global__ void gaussian_nll_kernel(const float* mean, const float* target, const float* spread, float* out,
                                    int n, float floor_value) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 m = *reinterpret_cast<const float4*>(mean + i);
        float4 t = *reinterpret_cast<const float4*>(target + i);
        float4 s = *reinterpret_cast<const float4*>(spread + i);
        float4 r;
        r.x = nll_one(m.x, t.x, s.x, floor_value);
        r.y = nll_one(m.y, t.y, s.y, floor_value);
        r.z = nll_one(m.z, t.z, s.z, floor_value);
        r.w = nll_one(m.w, t.w, s.w, floor_value);
        *reinterpret_cast<float4*>(out + i) = r;
    } else {
        for (; i < n; ++i) out[i] = nll_one(mean[i], target[i], spread[i], floor_value);
    }
}

torch::Tensor gaussian_nll(torch::Tensor mean, torch::Tensor target, torch::Tensor spread, double floor_value) {
    auto out = torch::empty_like(mean);
    int n = mean.numel();
    int threads = 128;
    int blocks = ((n + 3) / 4 + threads - 1) / threads;
    gaussian_nll_kernel<<<blocks, threads>>>(mean.data_ptr<float>(), target.data_ptr<float>(),
        spread.data_ptr<float>(), out.data_ptr<float>(), n, static_cast<float>(floor_value));
    return out;
}
"""

gaussian = load_inline(
    name="gaussian_nll_ext",
    cpp_sources="torch::Tensor gaussian_nll(torch::Tensor mean, torch::Tensor target, torch::Tensor spread, double floor_value);",
    cuda_sources=cuda_source,
    functions=["gaussian_nll"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, mean, target, variance):
        return gaussian.gaussian_nll(mean.contiguous(), target.contiguous(), variance.contiguous(), self.floor)
