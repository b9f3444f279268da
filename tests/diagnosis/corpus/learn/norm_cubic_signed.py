# about = "Sums cubes without the absolute value; the root of a negative sum is NaN."
# section = "mismatch"
# problem = "norm_cubic"
# causes = ["wrong-norm-order", "overflow-to-nan", "operator-missing"]
# says = ["abs|sign|negative|nan"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cubic_norm",
    cpp_sources="torch::Tensor cubic_norm(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cubic_kernel(const float* x, float* y, int items, int columns, int total) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= total) return;
    int b = t / columns, c = t % columns;
    float s = 0.f;
    for (int i = 0; i < items; ++i) {
        float v = x[(b * items + i) * columns + c];
        s += v * v * v;
    }
    y[t] = powf(s, 1.f / 3.f);
}

torch::Tensor cubic_norm(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(2)}, x.options());
    int total = y.numel();
    cubic_kernel<<<(total + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), total);
    return y;
}
""",
    functions=["cubic_norm"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cubic_norm(x.contiguous())
