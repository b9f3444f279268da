# about = "The median is that of the ring as it was before the new frame entered."
# section = "mismatch"
# problem = "ring_median"
# causes = ["state-order", "scan-exclusive", "state-not-updated", "scan-off-by-one"]
# says = ["before|after|old|previous|order|update|entered|new frame|stale|exclusiv|state"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// the median is the value with exactly (slots - 1) / 2 others before it
__global__ void against_median(const float* __restrict__ ring, const float* __restrict__ frame, float* __restrict__ out,
                               const float bound, const int slots, const int width) {
    extern __shared__ float column[];
    const int i = blockIdx.x, b = blockIdx.y, s = threadIdx.x;
    if (s < slots) column[s] = ring[((size_t)b * slots + s) * width + i];
    __syncthreads();
    if (s < slots) {
        const float mine = column[s];
        int rank = 0;
        for (int k = 0; k < slots; ++k) rank += column[k] < mine || (column[k] == mine && k < s);
        if (rank == (slots - 1) / 2) out[b * width + i] = fminf(bound, fmaxf(-bound, frame[b * width + i] - mine));
    }
}

__global__ void enter(float* ring, const float* __restrict__ frame, int64_t* head, const int slots, const int width) {
    const int b = blockIdx.x;
    const int64_t slot = head[b] % slots;
    for (int i = threadIdx.x; i < width; i += blockDim.x) ring[((size_t)b * slots + slot) * width + i] = frame[b * width + i];
    __syncthreads();
    if (threadIdx.x == 0) head[b]++;
}

torch::Tensor push(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound) {
    const int B = ring.size(0), S = ring.size(1), N = ring.size(2);
    auto out = torch::empty_like(frame);
    auto stream = at::cuda::getCurrentCUDAStream();
    against_median<<<dim3(N, B), 32, S * sizeof(float), stream>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), out.data_ptr<float>(), (float)bound, S, N);
    enter<<<B, 32, 0, stream>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), S, N);
    return out;
}
"""
ext = load_inline("ring_push", cpp_sources="torch::Tensor push(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound);",
                  cuda_sources=SRC, functions=["push"])


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, ring, frame, head):
        head = head.clone()
        return ext.push(ring, frame.contiguous(), head, self.bound), ring, head
