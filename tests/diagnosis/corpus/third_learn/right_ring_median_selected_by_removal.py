# about = "Right: the lower middle is what is left after the least has been removed three times, by lanes of a warp."
# section = "right"
# problem = "ring_median"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// a warp for a column, a lane for a slot
__global__ void by_removal(float* ring, const float* __restrict__ frame, const int64_t* __restrict__ head, float* __restrict__ out,
                           float bound, int B, int S, int N) {
    const int column = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (column >= B * N) return;
    const int b = column / N, i = column % N;
    float* mine = ring + ((size_t)b * S + lane) * N + i;
    float v = INFINITY;
    if (lane < S) {
        if (lane == (int)(head[b] % S)) *mine = frame[column];
        v = *mine;
    }
    bool left = lane < S;
    float least = 0.f;
    for (int round = 0; round <= (S - 1) / 2; ++round) {
        least = left ? v : INFINITY;
        for (int o = 16; o > 0; o >>= 1) least = fminf(least, __shfl_xor_sync(0xffffffffu, least, o));
        const unsigned who = __ballot_sync(0xffffffffu, left && v == least);
        if (lane == __ffs(who) - 1) left = false;
    }
    if (lane == 0) out[column] = fminf(bound, fmaxf(-bound, frame[column] - least));
}

__global__ void move_on(int64_t* head, int B) {
    if (threadIdx.x < B) ++head[threadIdx.x];
}

torch::Tensor pushed(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound) {
    const int B = ring.size(0), S = ring.size(1), N = ring.size(2);
    TORCH_CHECK(S <= 32 && B <= 32, "at most 32 slots and samples");
    auto out = torch::empty_like(frame);
    auto s = at::cuda::getCurrentCUDAStream();
    by_removal<<<(B * N + 3) / 4, 128, 0, s>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), out.data_ptr<float>(),
                                               (float)bound, B, S, N);
    move_on<<<1, 32, 0, s>>>(head.data_ptr<int64_t>(), B);
    return out;
}
"""
ext = load_inline("ring_by_removal", cpp_sources="torch::Tensor pushed(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound);",
                  cuda_sources=SRC, functions=["pushed"])


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, ring, frame, head):
        head = head.clone()
        return ext.pushed(ring, frame.contiguous(), head, self.bound), ring, head
