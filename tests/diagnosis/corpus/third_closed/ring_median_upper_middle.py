# about = "Of the two middle values the higher one is taken; the reference takes the lower."
# section = "mismatch"
# problem = "ring_median"
# causes = ["wrong-rank", "wrong-rounding", "index-off-by-one"]
# says = ["rank|middle|median|lower|upper|higher|order statistic|k-th|one too"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#define MAX_SLOTS 32

__global__ void ring_median_kernel(float* ring, const float* frame, int64_t* head, float* out, float bound, int B, int S, int N) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * N) return;
    int b = idx / N;
    int i = idx % N;
    int slot = head[b] % S;
    ring[(b * S + slot) * N + i] = frame[idx];
    float v[MAX_SLOTS];
    for (int s = 0; s < S; s++) v[s] = ring[(b * S + s) * N + i];
    // insertion sort
    for (int s = 1; s < S; s++) {
        float key = v[s];
        int j = s - 1;
        while (j >= 0 && v[j] > key) {
            v[j + 1] = v[j];
            j--;
        }
        v[j + 1] = key;
    }
    float median = v[S / 2];
    out[idx] = fminf(fmaxf(frame[idx] - median, -bound), bound);
}

__global__ void advance_kernel(int64_t* head, int B) {
    int b = threadIdx.x;
    if (b < B) head[b] += 1;
}

torch::Tensor ring_median(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound) {
    int B = ring.size(0), S = ring.size(1), N = ring.size(2);
    auto out = torch::empty_like(frame);
    ring_median_kernel<<<(B * N + 63) / 64, 64>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), out.data_ptr<float>(), (float)bound, B, S, N);
    advance_kernel<<<1, 32>>>(head.data_ptr<int64_t>(), B);
    return out;
}
"""

ring_op = load_inline(
    name="ring_median",
    cpp_sources="torch::Tensor ring_median(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound);",
    cuda_sources=cuda_source,
    functions=["ring_median"],
)


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, ring, frame, head):
        head = head.clone()
        out = ring_op.ring_median(ring, frame.contiguous(), head, self.bound)
        return out, ring, head
