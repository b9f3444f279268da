# about = "The flag of the following step decides whether the sum goes on."
# section = "mismatch"
# problem = "discounted_returns"
# causes = ["mask-shifted", "index-off-by-one", "scan-off-by-one", "wrong-index-base"]
# says = ["shift|off by one|next|one|later|follow|neighbour"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

kernels = r"""
#include <torch/extension.h>

// warp per row: each lane holds the suffix of one tile of 32 steps as a linear map of what comes after
__global__ void returns_kernel(const float* __restrict__ reward, const int* __restrict__ done,
                               const float* __restrict__ last, float* __restrict__ out, int steps, float gamma) {
    const int row = blockIdx.x;
    const int lane = threadIdx.x;
    const float* rr = reward + (size_t)row * steps;
    const int* dd = done + (size_t)row * steps;
    float carry = last[row];
    int tiles = (steps + 31) / 32;
    for (int tile = tiles - 1; tile >= 0; --tile) {
        int t = tile * 32 + lane;
        float m = 1.f, c = 0.f;
        if (t < steps) {
            bool over = t + 1 < steps ? dd[t + 1] != 0 : false;
            m = over ? 0.f : gamma;
            c = rr[t];
        }
        for (int o = 1; o < 32; o *= 2) {
            float nm = __shfl_down_sync(0xffffffff, m, o);
            float nc = __shfl_down_sync(0xffffffff, c, o);
            if (lane + o < 32) {
                c += m * nc;
                m *= nm;
            }
        }
        float v = c + m * carry;
        if (t < steps) out[(size_t)row * steps + t] = v;
        carry = __shfl_sync(0xffffffff, v, 0);
    }
}

torch::Tensor returns(torch::Tensor reward, torch::Tensor done, torch::Tensor last, double gamma) {
    auto out = torch::empty_like(reward);
    returns_kernel<<<reward.size(0), 32>>>(reward.data_ptr<float>(), done.data_ptr<int>(), last.data_ptr<float>(),
                                           out.data_ptr<float>(), reward.size(1), static_cast<float>(gamma));
    return out;
}
"""

lib = load_inline(
    name="warp_returns",
    cpp_sources="torch::Tensor returns(torch::Tensor reward, torch::Tensor done, torch::Tensor last, double gamma);",
    cuda_sources=kernels,
    functions=["returns"],
)


class ModelNew(nn.Module):
    def __init__(self, gamma: float):
        super().__init__()
        self.gamma = gamma

    def forward(self, rewards, done, last):
        return lib.returns(rewards.contiguous(), done.contiguous(), last.contiguous(), self.gamma)
