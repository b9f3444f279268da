# about = "Threads of a block look whether their element is larger than the result and store it, without atomics."
# category = "races"
# group = "order"
# problem = "row_max"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__global__ void row_max_kernel(const float* x, float* y, int columns) {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float v = x[blockIdx.x * columns + i];
        if (v > y[blockIdx.x]) y[blockIdx.x] = v;
    }
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::full({x.size(0)}, -INFINITY, x.options());
    row_max_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
