# about = "Rows are placed with the width's ratio and columns with the height's."
# section = "mismatch"
# problem = "nearest_resize"
# causes = ["coordinates-swapped", "wrong-coordinate"]
# says = ["ratio|scale|height|width|swap|exchang|coordinate"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void resize_rows(const float* x, float* y, int h, int w, int oh, int ow, float a, float b) {
    // A block for each output row.
    int plane = blockIdx.y, oy = blockIdx.x;
    int sy = min(__float2int_rd(oy * a), h - 1);
    const float* src = x + ((long)plane * h + sy) * w;
    float* dst = y + ((long)plane * oh + oy) * ow;
    for (int ox = threadIdx.x; ox < ow; ox += blockDim.x) {
        int sx = min(__float2int_rd(ox * b), w - 1);
        dst[ox] = __ldg(src + sx);
    }
}

torch::Tensor resize(torch::Tensor x, std::vector<int64_t> size) {
    int h = x.size(2), w = x.size(3);
    int oh = size[0], ow = size[1];
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    float a = static_cast<float>(w) / ow;
    float b = static_cast<float>(h) / oh;
    resize_rows<<<dim3(oh, x.size(0) * x.size(1)), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow, a, b);
    return y;
}
"""

resize_module = load_inline(
    name="resize_rows",
    cpp_sources="#include <vector>\ntorch::Tensor resize(torch::Tensor x, std::vector<int64_t> size);",
    cuda_sources=source,
    functions=["resize"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = list(size)

    def forward(self, x):
        return resize_module.resize(x.contiguous(), self.size)
