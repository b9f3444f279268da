# about = "Only alignments that end in the last label are counted; those that end in the blank after it are left out."
# section = "mismatch"
# problem = "alignment_loss"
# causes = ["last-element-left-out", "partial-sums-not-combined", "operator-missing", "wrong-combine", "lost-lanes", "index-off-by-one", "scan-off-by-one"]
# says = ["last|end|blank|state|sum|combin|missing|left out|one too|early|short|lost|partial|off by one|step"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

#define MAX_STATES 64

__device__ inline float lse3(float a, float b, float c) {
    float m = fmaxf(a, fmaxf(b, c));
    return m == -INFINITY ? m : m + logf(expf(a - m) + expf(b - m) + expf(c - m));
}

// A single thread per sample. Alphas are updated in place from the last state to the first.
__global__ void ctc_kernel(const float* __restrict__ logits, const int64_t* __restrict__ targets, const int64_t* __restrict__ frames,
                           const int64_t* __restrict__ lengths, float* __restrict__ out, int batch, int classes, int longest, int blank) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const int n = lengths[b], states = 2 * n + 1;
    const int64_t* y = targets + b * longest;
    float alpha[MAX_STATES];
    for (int s = 0; s < states; ++s) alpha[s] = -INFINITY;
    for (int t = 0; t < frames[b]; ++t) {
        const float* x = logits + (t * batch + b) * classes;
        float top = x[0], sum = 0.f;
        for (int c = 1; c < classes; ++c) top = fmaxf(top, x[c]);
        for (int c = 0; c < classes; ++c) sum += expf(x[c] - top);
        const float norm = top + logf(sum);
        if (t == 0) {
            alpha[0] = x[blank] - norm;
            alpha[1] = x[y[0]] - norm;
            continue;
        }
        for (int s = states - 1; s >= 0; --s) {
            const int label = s & 1 ? (int)y[s / 2] : blank;
            const bool jump = (s & 1) && s > 2 && y[s / 2] != y[s / 2 - 1];
            alpha[s] = lse3(alpha[s], s > 0 ? alpha[s - 1] : -INFINITY, jump ? alpha[s - 2] : -INFINITY) + x[label] - norm;
        }
    }
    out[b] = -alpha[states - 2] / n;
}

torch::Tensor ctc_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank) {
    const int batch = logits.size(1), longest = targets.size(1);
    TORCH_CHECK(2 * longest + 1 <= MAX_STATES, "targets too long");
    auto out = torch::empty({batch}, logits.options());
    ctc_kernel<<<(batch + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        logits.data_ptr<float>(), targets.data_ptr<int64_t>(), frames.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(),
        out.data_ptr<float>(), batch, logits.size(2), longest, blank);
    return out;
}
"""
ext = load_inline(
    name="ctc_in_place",
    cpp_sources="torch::Tensor ctc_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank);",
    cuda_sources=SRC,
    functions=["ctc_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return ext.ctc_cuda(logits.contiguous(), targets.contiguous(), frames.contiguous(), lengths.contiguous(), self.blank)
