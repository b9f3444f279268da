# about = "Holds the peaks along the channels, and they do not fade."
# section = "mismatch"
# problem = "peak_hold"
# faults = [{causes = ["wrong-axis", "layout-misread"], says = ["axis|dim|along|channel"]}, {causes = ["operator-missing", "scale-missing", "wrong-decay"], says = ["fad|decay|operator|left out|missing|factor|power|pow|scale"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_cuda = r"""
#include <torch/extension.h>

__global__ void running_peak(const float* in, float* out, int64_t* idx, int rows, int n, int step, int outer) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int first = (r / outer) * outer * n + (r % outer);
    float m = -1e30f;
    int64_t k = 0;
    for (int i = 0; i < n; i++) {
        float v = in[first + i * step];
        if (v >= m) {
            m = v;
            k = i;
        }
        out[first + i * step] = m;
        idx[first + i * step] = k;
    }
}

std::vector<torch::Tensor> launch(torch::Tensor in, double fade) {
    auto out = torch::empty_like(in);
    auto idx = torch::empty(in.sizes(), in.options().dtype(torch::kInt64));
    int n = in.size(2);
    int outer = 1;
    int rows = in.numel() / n;
    running_peak<<<(rows + 127) / 128, 128>>>(in.data_ptr<float>(), out.data_ptr<float>(), idx.data_ptr<int64_t>(), rows, n, outer, outer);
    return {out, idx};
}
"""

_ext = load_inline(
    name="running_peak",
    cpp_sources="std::vector<torch::Tensor> launch(torch::Tensor in, double fade);",
    cuda_sources=_cuda,
    functions=["launch"],
)


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        out, idx = _ext.launch(x.contiguous(), self.fade)
        return out, idx
