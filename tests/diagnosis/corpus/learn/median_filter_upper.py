# about = "Takes the upper of the two values in the middle."
# section = "mismatch"
# problem = "median_filter"
# causes = ["wrong-rank"]
# says = ["upper|lower|middle|rank|median|off by one|neighbo"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="median_sub",
    cpp_sources="torch::Tensor median_sub(torch::Tensor x);",
    cuda_sources=r"""
#define MAXW 64
__global__ void median_kernel(const float* x, float* y, int rows, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float a[MAXW];
    for (int j = 0; j < width; ++j) {
        float v = x[r * width + j];
        int k = j - 1;
        while (k >= 0 && a[k] > v) { a[k + 1] = a[k]; --k; }
        a[k + 1] = v;
    }
    float m = a[width / 2];
    for (int j = 0; j < width; ++j) y[r * width + j] = x[r * width + j] - m;
}

torch::Tensor median_sub(torch::Tensor x) {
    TORCH_CHECK(x.size(1) <= MAXW, "row too wide");
    auto y = torch::empty_like(x);
    median_kernel<<<(x.size(0) + 15) / 16, 16>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["median_sub"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.median_sub(x.contiguous())
