# about = "A row is taken by recursion, one element a level: far deeper than a thread's stack of 1 KB."
# category = "bounds"
# group = "launch"
# problem = "row_max"
# status = ["runtime_error", "build_error", "unsupported"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__device__ __noinline__ float largest(const float* x, int n, float salt) {
    if (n == 1) return x[0];
    volatile float kept[16];
    kept[n % 16] = x[0];
    return fmaxf(largest(x + 1, n - 1, salt + 1.f), kept[n % 16]);
}

__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    int row = threadIdx.x;
    if (row < rows) y[row] = largest(x + row * columns, columns, 0.f);
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
