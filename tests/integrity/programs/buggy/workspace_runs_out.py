# about = "Each call takes the next of 256 slots of a workspace, and nobody begins anew."
# category = "bounds"
# group = "reuse"
# problem = "row_max"
# status = ["runtime_error", "incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x, torch::Tensor slots, int call);",
    cuda_sources=r"""
__global__ void max_kernel(const float* x, float* y, float* slot, int rows, int columns) {
    int row = threadIdx.x;
    if (row >= rows) return;
    float top = -INFINITY;
    for (int i = 0; i < columns; ++i) top = fmaxf(top, x[row * columns + i]);
    if (row == 0) slot[0] = top;
    y[row] = top;
}

torch::Tensor row_max(torch::Tensor x, torch::Tensor slots, int call) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), slots.data_ptr<float>() + 8 * call, x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.slots = -1, None

    def forward(self, x):
        if self.slots is None:
            self.slots = torch.empty(256 * 8, device=x.device)
        self.calls += 1
        return ext.row_max(x.contiguous(), self.slots, self.calls)
