# about = "The border is zero, where it is one half."
# section = "mismatch"
# problem = "constant_pad"
# causes = ["wrong-fill-value", "constant-added"]
# says = ["value|fill|constant|0\\.5|zero|border|pad"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="const_pad",
    cpp_sources="torch::Tensor const_pad(torch::Tensor x);",
    cuda_sources=r"""
__global__ void copy_inside(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    const int plane = blockIdx.z;
    const int row = blockIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= ow) return;
    const int r = row - 3, c = column - 1;
    const bool inside = (unsigned)r < (unsigned)h && (unsigned)c < (unsigned)w;
    float value = 0.f;
    if (inside) value = x[((long)plane * h + r) * w + c];
    y[((long)plane * oh + row) * ow + column] = value;
}

torch::Tensor const_pad(torch::Tensor x) {
    const int h = x.size(2), w = x.size(3), oh = h + 3 + 1, ow = w + 1 + 2;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 grid((ow + 31) / 32, oh, x.size(0) * x.size(1));
    copy_inside<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow);
    return y;
}
""",
    functions=["const_pad"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.const_pad(x.contiguous())
