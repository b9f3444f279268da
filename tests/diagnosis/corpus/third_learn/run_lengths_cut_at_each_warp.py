# about = "A run is counted within its 32 steps alone and begins anew with each of them."
# section = "mismatch"
# problem = "run_lengths"
# causes = ["scan-restarts", "partial-sums-not-combined", "lost-lanes"]
# says = ["warp|32|tile|chunk|restart|block|carr|lane|forget|earlier"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void runs_by_ballot(const float* __restrict__ x, float* __restrict__ y, int64_t* __restrict__ longest,
                               const float threshold, const int steps) {
    const int row = blockIdx.x, lane = threadIdx.x;
    int most = 0;
    for (int base = 0; base < steps; base += 32) {
        const int t = base + lane;
        const float v = t < steps ? x[row * steps + t] : 0.f;
        const unsigned high = __ballot_sync(0xffffffffu, v > threshold);
        // bit j is set where lane j differs from lane j - 1
        const unsigned turn = (high ^ (high << 1)) | 1u;
        const unsigned below = turn & (0xffffffffu >> (31 - lane));
        const int start = 31 - __clz(below);
        const int n = lane - start + 1;
        if (t < steps) {
            y[row * steps + t] = v / sqrtf((float)n);
            most = max(most, n);
        }
    }
    for (int o = 16; o > 0; o >>= 1) most = max(most, __shfl_xor_sync(0xffffffffu, most, o));
    if (lane == 0) longest[row] = most;
}

std::tuple<torch::Tensor, torch::Tensor> runs(torch::Tensor x, double threshold) {
    auto y = torch::empty_like(x);
    auto longest = torch::empty({x.size(0)}, x.options().dtype(torch::kLong));
    runs_by_ballot<<<x.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), longest.data_ptr<int64_t>(), (float)threshold, x.size(1));
    return {y, longest};
}
"""

ext = load_inline("runs_by_ballot", cpp_sources="std::tuple<torch::Tensor, torch::Tensor> runs(torch::Tensor x, double threshold);",
                  cuda_sources=SRC, functions=["runs"])


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        return ext.runs(x.contiguous(), self.threshold)
