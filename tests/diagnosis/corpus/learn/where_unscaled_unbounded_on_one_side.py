# about = "What is above the threshold is not scaled, and what is below is not bounded but set to the bound."
# section = "mismatch"
# problem = "where_threshold"
# faults = [{causes = ["scale-missing"], says = ["scal|factor"]}, {causes = ["clamp-missing", "constant-output", "clamp-bounds", "wrong-fill-value"], says = ["clamp|bound|floor|fill|constant"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <cuda_runtime.h>

__global__ void threshold_kernel(const float2* x, const float* threshold, float2* y, int pairs, int pairs_per_row, int rows, float low) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    float limit = threshold[i / pairs_per_row % rows];
    float2 v = x[i];
    v.x = v.x > limit ? v.x : low;
    v.y = v.y > limit ? v.y : low;
    y[i] = v;
}

torch::Tensor threshold_forward(torch::Tensor x, torch::Tensor threshold, double low) {
    TORCH_CHECK(x.size(2) % 2 == 0, "pairs");
    auto y = torch::empty_like(x);
    int pairs = x.numel() / 2;
    threshold_kernel<<<(pairs + 127) / 128, 128>>>(reinterpret_cast<const float2*>(x.data_ptr<float>()), threshold.data_ptr<float>(),
        reinterpret_cast<float2*>(y.data_ptr<float>()), pairs, x.size(2) / 2, x.size(1), (float)low);
    return y;
}
"""

threshold_ext = load_inline(
    name="threshold_forward",
    cpp_sources="torch::Tensor threshold_forward(torch::Tensor x, torch::Tensor threshold, double low);",
    cuda_sources=cuda_src,
    functions=["threshold_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, factor, floor):
        super().__init__()
        self.factor = factor
        self.floor = floor

    def forward(self, x, threshold):
        return threshold_ext.threshold_forward(x.contiguous(), threshold.contiguous(), self.floor)
