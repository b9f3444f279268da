# about = "The recurrence begins with zero; the given state is not read."
# section = "mismatch"
# problem = "affine_recurrence"
# causes = ["wrong-initial-state", "index-ignored"]
# says = ["initial|state|begin|start|zero|first"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp = "torch::Tensor recur(torch::Tensor a, torch::Tensor b, torch::Tensor state);"

cuda = r"""
#include <torch/extension.h>

#define CHUNK 16

__global__ void recur_kernel(const float* a, const float* b, const float* state, float* y, int steps, int width) {
    // a block per sample, a thread per channel; CHUNK steps are staged in registers
    int n = blockIdx.x;
    int d = threadIdx.x;
    if (d >= width) return;
    const float* pa = a + (size_t)n * steps * width + d;
    const float* pb = b + (size_t)n * steps * width + d;
    float* py = y + (size_t)n * steps * width + d;
    float h = 0.f;
    for (int base = 0; base < steps; base += CHUNK) {
        float ra[CHUNK], rb[CHUNK];
        int count = min(CHUNK, steps - base);
        for (int k = 0; k < count; ++k) {
            ra[k] = pa[(base + k) * width];
            rb[k] = pb[(base + k) * width];
        }
        for (int k = 0; k < count; ++k) {
            h = fmaf(ra[k], h, rb[k]);
            py[(base + k) * width] = h;
        }
    }
}

torch::Tensor recur(torch::Tensor a, torch::Tensor b, torch::Tensor state) {
    auto y = torch::empty_like(b);
    int threads = ((int)a.size(2) + 31) / 32 * 32;
    recur_kernel<<<a.size(0), threads>>>(a.data_ptr<float>(), b.data_ptr<float>(), state.data_ptr<float>(),
                                         y.data_ptr<float>(), a.size(1), a.size(2));
    return y;
}
"""

mod = load_inline(name="recur_mod", cpp_sources=[cpp], cuda_sources=[cuda], functions=["recur"])


class ModelNew(nn.Module):
    def forward(self, a, b, state):
        return mod.recur(a.contiguous(), b.contiguous(), state.contiguous())
