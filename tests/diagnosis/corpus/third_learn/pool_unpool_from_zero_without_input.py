# about = "The maximum begins at zero with the first place of the window, and the input is not added."
# section = "mismatch"
# problem = "pool_unpool_drop"
# faults = [{causes = ["pool-start-value", "reduction-start-value"], says = ["start|init|begin|zero| 0"]}, {causes = ["residual-missing", "operator-missing", "base-ignored"], says = ["residual|input|added|skip|operator|base|sum"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void maxpool(const float* x, float* v, int64_t* idx, int planes, int H, int W, int OH, int OW) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * OH * OW) return;
    int ow = i % OW, oh = (i / OW) % OH, p = i / (OW * OH);
    float m = 0.0f;
    int at = oh * 2 * W + ow * 3;
    for (int kh = 0; kh < 2; kh++) {
        for (int kw = 0; kw < 3; kw++) {
            int h = oh * 2 + kh, w = ow * 3 + kw;
            if (h < H && w < W) {
                float val = x[(p * H + h) * W + w];
                if (val > m) { m = val; at = h * W + w; }
            }
        }
    }
    v[i] = m;
    idx[i] = at;
}

__global__ void unpool(const float* x, const float* v, const int64_t* idx, const float* mask, float* y, float keep, int planes, int C, int HW, int OHW) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * OHW) return;
    int p = i / OHW;
    y[p * HW + idx[i]] = v[i] * mask[p / C] / keep;
}

std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor mask, double keep) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H + 1) / 2, OW = (W + 2) / 3, total = N * C * OH * OW;
    auto v = torch::empty({N, C, OH, OW}, x.options());
    auto idx = torch::empty({N, C, OH, OW}, x.options().dtype(torch::kInt64));
    auto y = torch::zeros_like(x);
    maxpool<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), v.data_ptr<float>(), idx.data_ptr<int64_t>(), N * C, H, W, OH, OW);
    unpool<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), v.data_ptr<float>(), idx.data_ptr<int64_t>(), mask.data_ptr<float>(),
                                         y.data_ptr<float>(), (float)keep, N * C, C, H * W, OH * OW);
    return {y, idx};
}
"""

ops = load_inline(
    name="max_unpool_drop",
    cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor mask, double keep);",
    cuda_sources=cuda_source,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, keep):
        super(ModelNew, self).__init__()
        self.keep = keep

    def forward(self, x, mask):
        y, idx = ops.run(x.contiguous(), mask.contiguous(), self.keep)
        return y, idx
