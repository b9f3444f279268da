# about = "The places that are returned count from the start of the tensor and not from the start of their plane."
# section = "mismatch"
# problem = "pool_unpool_drop"
# causes = ["wrong-index-base"]
# says = ["plane|tensor|flat|base|count|offset|channel|relative|start"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cfloat>

__global__ void pool_unpool_kernel(const float* x, const float* mask, float* y, int64_t* places, float keep,
                                   int N, int C, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * C * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int nc = idx / (OW * OH);
    int n = nc / C;
    float best = -FLT_MAX;
    int where = 0;
    for (int h = oh * 2; h < min(oh * 2 + 2, H); h++) {
        for (int w = ow * 3; w < min(ow * 3 + 3, W); w++) {
            int at = (nc * H + h) * W + w;
            if (x[at] > best) {
                best = x[at];
                where = at;
            }
        }
    }
    places[idx] = where;
    for (int h = oh * 2; h < min(oh * 2 + 2, H); h++) {
        for (int w = ow * 3; w < min(ow * 3 + 3, W); w++) {
            int at = (nc * H + h) * W + w;
            y[at] = at == where ? x[at] + best * mask[n] / keep : x[at];
        }
    }
}

std::vector<torch::Tensor> pool_unpool(torch::Tensor x, torch::Tensor mask, double keep) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H + 1) / 2, OW = (W + 2) / 3;
    auto y = torch::empty_like(x);
    auto places = torch::empty({N, C, OH, OW}, x.options().dtype(torch::kInt64));
    int total = N * C * OH * OW;
    pool_unpool_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), mask.data_ptr<float>(), y.data_ptr<float>(),
        places.data_ptr<int64_t>(), keep, N, C, H, W, OH, OW);
    return {y, places};
}
"""

op = load_inline(
    name="pool_unpool",
    cpp_sources="std::vector<torch::Tensor> pool_unpool(torch::Tensor x, torch::Tensor mask, double keep);",
    cuda_sources=cuda_source,
    functions=["pool_unpool"],
)


class ModelNew(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep = keep

    def forward(self, x, mask):
        y, places = op.pool_unpool(x.contiguous(), mask.contiguous(), self.keep)
        return y, places
