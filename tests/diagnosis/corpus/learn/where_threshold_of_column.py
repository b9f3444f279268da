# about = "The threshold is read by column, where each row has its own."
# section = "mismatch"
# problem = "where_threshold"
# causes = ["keepdim-broadcast", "wrong-axis", "layout-misread", "bias-wrong-index", "index-ignored"]
# says = ["threshold|broadcast|row|column|dim|axis|ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void select_kernel(const float* x, const float* threshold, float* y, int n, int columns, float factor, float floor_) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float v = x[i];
        float limit = threshold[i % columns];
        y[i] = v > limit ? v * factor : fmaxf(v, floor_);
    }
}

torch::Tensor select_forward(torch::Tensor x, torch::Tensor threshold, double factor, double floor_) {
    auto y = torch::empty_like(x);
    select_kernel<<<4, 128>>>(x.data_ptr<float>(), threshold.data_ptr<float>(), y.data_ptr<float>(), x.numel(), x.size(2),
                              (float)factor, (float)floor_);
    return y;
}
"""

select_ext = load_inline(
    name="select_forward",
    cpp_sources="torch::Tensor select_forward(torch::Tensor x, torch::Tensor threshold, double factor, double floor_);",
    cuda_sources=source,
    functions=["select_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, factor, floor):
        super().__init__()
        self.factor = factor
        self.floor = floor

    def forward(self, x, threshold):
        return select_ext.select_forward(x.contiguous(), threshold.contiguous(), self.factor, self.floor)
