# about = "The head is moved on before the frame is written, so that it goes into the next slot."
# section = "mismatch"
# problem = "ring_median"
# causes = ["index-off-by-one", "state-order", "wrong-coordinate", "scan-off-by-one"]
# says = ["slot|one|off by|next|before|order|index|shift|row|place|position"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

template <int SLOTS>
__device__ __forceinline__ void sort_network(float (&v)[SLOTS]) {
    // odd-even transposition
    #pragma unroll
    for (int pass = 0; pass < SLOTS; ++pass)
        #pragma unroll
        for (int i = pass & 1; i + 1 < SLOTS; i += 2) {
            const float lo = fminf(v[i], v[i + 1]), hi = fmaxf(v[i], v[i + 1]);
            v[i] = lo;
            v[i + 1] = hi;
        }
}

__global__ void push_and_filter(float* ring, const float* frame, int64_t* head, float* out, float bound, int width) {
    const int b = blockIdx.x;
    __shared__ int slot;
    if (threadIdx.x == 0) {
        head[b] += 1;
        slot = (int)(head[b] % 8);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float v[8];
        ring[(b * 8 + slot) * width + i] = frame[b * width + i];
        for (int s = 0; s < 8; ++s) v[s] = ring[(b * 8 + s) * width + i];
        sort_network<8>(v);
        const float d = frame[b * width + i] - v[3];
        out[b * width + i] = d > bound ? bound : (d < -bound ? -bound : d);
    }
}

torch::Tensor push_and_filter_cuda(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound) {
    TORCH_CHECK(ring.size(1) == 8, "a ring of eight");
    auto out = torch::empty_like(frame);
    push_and_filter<<<ring.size(0), 32>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), out.data_ptr<float>(), bound, ring.size(2));
    return out;
}
"""

op = load_inline(
    name="push_and_filter",
    cpp_sources="torch::Tensor push_and_filter_cuda(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound);",
    cuda_sources=source,
    functions=["push_and_filter_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, ring, frame, head):
        head = head.clone()
        out = op.push_and_filter_cuda(ring, frame.contiguous(), head, self.bound)
        return out, ring, head
