# about = "A right answer: one kernel copies the inside, another fills the border from the output itself."
# section = "right"
# problem = "reflect_pad"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="reflect_two",
    cpp_sources="torch::Tensor reflect_two(torch::Tensor x);",
    cuda_sources=r"""
constexpr int LEFT = 3, RIGHT = 1, TOP = 2, BOTTOM = 4;

__global__ void rows_inside(const float* x, float* y, int h, int w, int oh, int ow) {
    int r = blockIdx.x, plane = blockIdx.y;
    const float* from = x + ((long)plane * h + r) * w;
    float* to = y + ((long)plane * oh + r + TOP) * ow;
    for (int c = threadIdx.x; c < ow; c += blockDim.x) {
        int k = c - LEFT;
        k = k < 0 ? -k : k;
        k = (w - 1) - abs((w - 1) - k);
        to[c] = from[k];
    }
}

__global__ void rows_outside(float* y, int h, int oh, int ow) {
    int r = blockIdx.x < TOP ? blockIdx.x : blockIdx.x - TOP + h + TOP;
    int source = r < TOP ? 2 * TOP - r : 2 * (TOP + h - 1) - r;
    float* plane = y + (long)blockIdx.y * oh * ow;
    for (int c = threadIdx.x; c < ow; c += blockDim.x) plane[(long)r * ow + c] = plane[(long)source * ow + c];
}

torch::Tensor reflect_two(torch::Tensor x) {
    int h = x.size(2), w = x.size(3), planes = x.size(0) * x.size(1);
    TORCH_CHECK(h > BOTTOM && w > LEFT, "a border is narrower than what it reflects");
    int oh = h + TOP + BOTTOM, ow = w + LEFT + RIGHT;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    rows_inside<<<dim3(h, planes), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow);
    rows_outside<<<dim3(TOP + BOTTOM, planes), 32>>>(y.data_ptr<float>(), h, oh, ow);
    return y;
}
""",
    functions=["reflect_two"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.reflect_two(x.contiguous())
