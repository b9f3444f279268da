# about = "The four amounts are read as top, bottom, left, right; the shape is the same."
# section = "mismatch"
# problem = "replicate_pad"
# causes = ["padding-sides-swapped", "padding-off-by-one"]
# says = ["left|top|side|axis|axes|swap|exchang|order|amount|pad"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

replication_cuda = r"""
#include <torch/extension.h>

__global__ void replication_pad_kernel(const float* __restrict__ input, float* __restrict__ output, int planes,
                                       int in_h, int in_w, int out_h, int out_w, int pad_top, int pad_left) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= out_w || y >= out_h) return;
    const int sx = min(max(x - pad_left, 0), in_w - 1);
    const int sy = min(max(y - pad_top, 0), in_h - 1);
    for (int p = 0; p < planes; ++p) {
        output[(p * out_h + y) * out_w + x] = input[(p * in_h + sy) * in_w + sx];
    }
}

torch::Tensor replication_pad(torch::Tensor input, std::vector<int64_t> padding) {
    const int planes = input.size(0) * input.size(1);
    const int in_h = input.size(2), in_w = input.size(3);
    const int out_h = in_h + padding[0] + padding[1];
    const int out_w = in_w + padding[2] + padding[3];
    auto output = torch::empty({input.size(0), input.size(1), out_h, out_w}, input.options());
    const dim3 block(16, 16);
    const dim3 grid((out_w + 15) / 16, (out_h + 15) / 16);
    replication_pad_kernel<<<grid, block>>>(input.data_ptr<float>(), output.data_ptr<float>(), planes, in_h, in_w,
                                            out_h, out_w, padding[0], padding[2]);
    return output;
}
"""

replication = load_inline(
    name="replication_pad",
    cpp_sources="torch::Tensor replication_pad(torch::Tensor input, std::vector<int64_t> padding);",
    cuda_sources=replication_cuda,
    functions=["replication_pad"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.padding = [2, 3, 1, 4]

    def forward(self, x):
        return replication.replication_pad(x.contiguous(), self.padding)
