# about = "The mask is read by channel where there is one entry for each sample."
# section = "mismatch"
# problem = "pool_unpool_drop"
# causes = ["wrong-axis", "keepdim-broadcast", "layout-misread", "index-ignored"]
# says = ["channel|sample|batch|axis|dim|broadcast|mask"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

code = """
#include <torch/extension.h>

struct Shape { int n, c, h, w, oh, ow; };

__global__ void fused_kernel(const float* __restrict__ x, const float* __restrict__ mask, float* __restrict__ y,
                             long* __restrict__ places, const float inv_keep, const Shape s) {
    // grid stride over the windows
    const int total = s.n * s.c * s.oh * s.ow;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        const int b = i % s.ow;
        const int a = i / s.ow % s.oh;
        const int c = i / (s.ow * s.oh) % s.c;
        const int plane = i / (s.ow * s.oh);
        const float* in = x + plane * s.h * s.w;
        float* out = y + plane * s.h * s.w;
        int best = a * 2 * s.w + b * 3;
        for (int k = 0; k < 6; ++k) {
            const int r = a * 2 + k / 3, q = b * 3 + k % 3;
            if (r < s.h && q < s.w) {
                const int at = r * s.w + q;
                out[at] = in[at];
                if (in[at] > in[best]) best = at;
            }
        }
        out[best] += in[best] * mask[c] * inv_keep;
        places[i] = best;
    }
}

std::vector<torch::Tensor> fused(torch::Tensor x, torch::Tensor mask, double keep) {
    Shape s{(int)x.size(0), (int)x.size(1), (int)x.size(2), (int)x.size(3), 0, 0};
    s.oh = (s.h + 1) / 2;
    s.ow = (s.w + 2) / 3;
    auto y = torch::empty_like(x);
    auto places = torch::empty({s.n, s.c, s.oh, s.ow}, x.options().dtype(torch::kInt64));
    fused_kernel<<<5, 64>>>(x.data_ptr<float>(), mask.data_ptr<float>(), y.data_ptr<float>(), (long*)places.data_ptr<int64_t>(), 1.0 / keep, s);
    return {y, places};
}
"""

mod = load_inline("fused_pool_unpool", cpp_sources="std::vector<torch::Tensor> fused(torch::Tensor x, torch::Tensor mask, double keep);",
                  cuda_sources=code, functions=["fused"])


class ModelNew(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep = keep

    def forward(self, x, mask):
        y, places = mod.fused(x.contiguous(), mask, self.keep)
        return y, places
