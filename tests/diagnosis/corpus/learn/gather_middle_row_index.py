# about = "One index serves a whole row, and the weight is read by the pick."
# section = "mismatch"
# problem = "gather_middle"
# faults = [{causes = ["index-ignored", "keepdim-broadcast", "layout-misread"], says = ["ind"]}, {causes = ["affine-per-group", "wrong-axis", "layout-misread", "wrong-channel"], says = ["weight|scale|factor"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void pick_rows(const float* x, const int64_t* index, const float* weight, float* out, int items, int picks, int width, int n) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (warp >= n) return;
    int b = warp / picks, p = warp % picks;
    int64_t row = index[warp * width];
    for (int j = lane; j < width; j += 32) out[warp * width + j] = weight[p] * x[(b * items + row) * width + j];
}

torch::Tensor pick(torch::Tensor x, torch::Tensor index, torch::Tensor weight) {
    auto out = torch::empty(index.sizes(), x.options());
    int n = index.size(0) * index.size(1);
    pick_rows<<<(n * 32 + 127) / 128, 128>>>(x.data_ptr<float>(), index.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(),
        x.size(1), index.size(1), index.size(2), n);
    return out;
}
"""
ext = load_inline("pick_rows", cpp_sources="torch::Tensor pick(torch::Tensor x, torch::Tensor index, torch::Tensor weight);", cuda_sources=SRC, functions=["pick"])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, index):
        return ext.pick(x.contiguous(), index.contiguous(), self.weight)
