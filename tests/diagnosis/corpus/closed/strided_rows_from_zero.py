# about = "Begins at row zero, not at row one."
# section = "mismatch"
# problem = "strided_rows_linear"
# causes = ["index-off-by-one", "padding-off-by-one", "index-ignored"]
# says = ["row|offset|shift|start|off by one|first|slice"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
// strides come from the tensor: no copy is made
__global__ void slice_linear(const float* x, int64_t sr, int64_t sc, const float* w, const float* b, float* y, int rows, int width, int features) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * features; i += gridDim.x * blockDim.x) {
        int r = i / features, f = i % features;
        const float* p = x + (int64_t)(3 * r) * sr;
        float a = 0.f;
        for (int j = 0; j < width; ++j) a += p[j * sc] * w[f * width + j];
        y[i] = a + b[f];
    }
}

torch::Tensor slice_linear_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int rows = (x.size(0) + 1) / 3, width = x.size(1), features = w.size(0);
    auto y = torch::empty({rows, features}, x.options());
    slice_linear<<<4, 64>>>(x.data_ptr<float>(), x.stride(0), x.stride(1), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, width, features);
    return y;
}
"""
ext = load_inline("slice_linear", cpp_sources="torch::Tensor slice_linear_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=SRC, functions=["slice_linear_forward"])


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return ext.slice_linear_forward(x, self.linear.weight, self.linear.bias)
