# about = "The scale of the head is applied before the tanh."
# section = "mismatch"
# problem = "outer_sum_tanh"
# causes = ["activation-order"]
# says = ["scale|before|inside|order|after|tanh"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="outer_tanh",
    cpp_sources="torch::Tensor outer_tanh(torch::Tensor left, torch::Tensor right, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void outer_tanh_kernel(const float* left, const float* right, const float* scale, float* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int h = blockIdx.z;
    if (r < rows && c < cols)
        y[(h * rows + r) * cols + c] = tanhf((left[h * rows + r] + right[h * cols + c]) * scale[h]);
}

torch::Tensor outer_tanh(torch::Tensor left, torch::Tensor right, torch::Tensor scale) {
    int heads = left.size(0), rows = left.size(1), cols = right.size(1);
    auto y = torch::empty({heads, rows, cols}, left.options());
    dim3 block(8, 8), grid((cols + 7) / 8, (rows + 7) / 8, heads);
    outer_tanh_kernel<<<grid, block>>>(left.data_ptr<float>(), right.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
""",
    functions=["outer_tanh"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(heads) + 0.5)

    def forward(self, left, right):
        return ext.outer_tanh(left.contiguous(), right.contiguous(), self.scale)
