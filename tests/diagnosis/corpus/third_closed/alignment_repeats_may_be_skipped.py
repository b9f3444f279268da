# about = "The step over a blank is allowed between equal labels too, so repeated labels get alignments that they do not have."
# section = "mismatch"
# problem = "alignment_loss"
# causes = ["mask-ignored", "mask-inverted", "operator-missing", "wrong-combine", "constant-added", "base-ignored", "segments-ignored"]
# says = ["mask|skip|repeat|equal|label|blank|combin|missing|sum|state|condition|left out|lost|segment|tie|constant|added|step|last"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ float log_add(float a, float b) {
    if (a == -INFINITY) return b;
    if (b == -INFINITY) return a;
    float m = fmaxf(a, b);
    return m + log1pf(expf(-fabsf(a - b)));
}

__global__ void log_normalisers(const float* x, float* lse, int rows, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = -INFINITY, s = 0.f;
    for (int c = 0; c < C; ++c) m = fmaxf(m, x[r * C + c]);
    for (int c = 0; c < C; ++c) s += expf(x[r * C + c] - m);
    lse[r] = m + logf(s);
}

__global__ void forward_pass(const float* x, const float* lse, const int64_t* targets, const int64_t* frames, const int64_t* lengths,
                             float* loss, int B, int C, int S, int blank) {
    extern __shared__ float alpha[];
    int b = blockIdx.x, s = threadIdx.x;
    int states = 2 * (int)lengths[b] + 1;
    float* now = alpha;
    float* next = alpha + blockDim.x;
    int label = s < states && s % 2 == 1 ? (int)targets[b * S + s / 2] : blank;
    now[s] = s < 2 && s < states ? x[b * C + label] - lse[b] : -INFINITY;
    __syncthreads();
    for (int t = 1; t < frames[b]; ++t) {
        float a = -INFINITY;
        if (s < states) {
            a = now[s];
            if (s > 0) a = log_add(a, now[s - 1]);
            if (s > 1 && label != blank) a = log_add(a, now[s - 2]);
            a += x[(t * B + b) * C + label] - lse[t * B + b];
        }
        next[s] = a;
        __syncthreads();
        float* swap = now; now = next; next = swap;
    }
    if (s == 0) loss[b] = -log_add(now[states - 1], now[states - 2]) / lengths[b];
}

torch::Tensor ctc(torch::Tensor x, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank) {
    int T = x.size(0), B = x.size(1), C = x.size(2), S = targets.size(1);
    auto lse = torch::empty({T, B}, x.options());
    auto loss = torch::empty({B}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    log_normalisers<<<(T * B + 63) / 64, 64, 0, stream>>>(x.data_ptr<float>(), lse.data_ptr<float>(), T * B, C);
    int threads = (2 * S + 1 + 31) / 32 * 32;
    forward_pass<<<B, threads, 2 * threads * sizeof(float), stream>>>(x.data_ptr<float>(), lse.data_ptr<float>(), targets.data_ptr<int64_t>(),
        frames.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(), loss.data_ptr<float>(), B, C, S, blank);
    return loss;
}
"""

ctc_ext = load_inline(
    name="ctc_forward",
    cpp_sources="torch::Tensor ctc(torch::Tensor x, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank);",
    cuda_sources=source,
    functions=["ctc"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return ctc_ext.ctc(logits.contiguous(), targets.contiguous(), frames, lengths, self.blank)
