# about = "The head is used as a slot without the remainder, so that a frame lands past the end of the rings."
# section = "run"
# problem = "ring_median"
# causes = ["global-out-of-bounds-write", "global-out-of-bounds-read", "illegal-address", "wrong-coordinate", "index-off-by-one"]
# says = ["bound|past|beyond|outside|modul|wrap|invalid|remainder|illegal|end of|another"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void write_frame(float* ring, const float* frame, const int64_t* head, int B, int S, int N) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * N) {
        int b = idx / N;
        int slot = (int)head[b];
        ring[(b * S + slot) * N + idx % N] = frame[idx];
    }
}

__global__ void median_residual(const float* ring, const float* frame, int64_t* head, float* out, float bound, int B, int S, int N) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B) head[idx] += 1;
    if (idx < B * N) {
        const float* column = ring + (idx / N) * S * N + idx % N;
        float median = 0.0f;
        for (int s = 0; s < S; s++) {
            int below = 0;
            for (int t = 0; t < S; t++) {
                float a = column[t * N], c = column[s * N];
                if (a < c || (a == c && t < s)) below++;
            }
            if (below == (S - 1) / 2) median = column[s * N];
        }
        float d = frame[idx] - median;
        out[idx] = fmaxf(-bound, fminf(bound, d));
    }
}

torch::Tensor update(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound) {
    int B = ring.size(0), S = ring.size(1), N = ring.size(2);
    auto out = torch::empty_like(frame);
    int blocks = (B * N + 127) / 128;
    write_frame<<<blocks, 128>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), B, S, N);
    median_residual<<<blocks, 128>>>(ring.data_ptr<float>(), frame.data_ptr<float>(), head.data_ptr<int64_t>(), out.data_ptr<float>(), (float)bound, B, S, N);
    return out;
}
"""

update = load_inline(
    name="ring_update",
    cpp_sources="torch::Tensor update(torch::Tensor ring, torch::Tensor frame, torch::Tensor head, double bound);",
    cuda_sources=cuda_src,
    functions=["update"],
)


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, ring, frame, head):
        head = head.clone()
        out = update.update(ring, frame.contiguous(), head, self.bound)
        return out, ring, head
