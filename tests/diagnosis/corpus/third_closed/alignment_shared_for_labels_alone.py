# about = "Shared memory is asked for twice the labels, without the blank that ends the states: the longest target writes past it."
# section = "run"
# problem = "alignment_loss"
# causes = ["shared-out-of-bounds-write", "shared-out-of-bounds-read"]
# says = ["shared"]
# stage = ["run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ float log_sum(float a, float b) {
    float m = fmaxf(a, b);
    if (m == -INFINITY) return m;
    return m + logf(expf(a - m) + expf(b - m));
}

__global__ void ctc_forward_kernel(const float* log_probs, const int64_t* targets, const int64_t* frames, const int64_t* lengths,
                                   float* loss, int B, int C, int S, int blank) {
    extern __shared__ float alpha[];
    const int b = blockIdx.x, s = threadIdx.x;
    const int len = (int)lengths[b], states = 2 * len + 1, T = (int)frames[b];
    const int label = (s & 1) && s < states ? (int)targets[b * S + s / 2] : blank;
    const bool can_skip = (s & 1) && s > 1 && s < states && label != (int)targets[b * S + s / 2 - 1];
    if (s < states) alpha[s] = s < 2 ? log_probs[b * C + label] : -INFINITY;
    __syncthreads();
    for (int t = 1; t < T; ++t) {
        float v = -INFINITY;
        if (s < states) {
            v = alpha[s];
            if (s > 0) v = log_sum(v, alpha[s - 1]);
            if (can_skip) v = log_sum(v, alpha[s - 2]);
            v += log_probs[(t * B + b) * C + label];
        }
        __syncthreads();
        if (s < states) alpha[s] = v;
        __syncthreads();
    }
    if (s == 0) loss[b] = -log_sum(alpha[states - 1], alpha[states - 2]) / len;
}

__global__ void log_softmax_kernel(const float* in, float* out, int rows, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float m = in[r * C], s = 0.f;
        for (int c = 1; c < C; ++c) m = fmaxf(m, in[r * C + c]);
        for (int c = 0; c < C; ++c) s += expf(in[r * C + c] - m);
        s = m + logf(s);
        for (int c = 0; c < C; ++c) out[r * C + c] = in[r * C + c] - s;
    }
}

torch::Tensor ctc_forward(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank) {
    const int T = logits.size(0), B = logits.size(1), C = logits.size(2), S = targets.size(1);
    auto log_probs = torch::empty_like(logits);
    auto loss = torch::empty({B}, logits.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    log_softmax_kernel<<<(T * B + 31) / 32, 32, 0, stream>>>(logits.data_ptr<float>(), log_probs.data_ptr<float>(), T * B, C);
    const size_t shared = 2 * S * sizeof(float);
    ctc_forward_kernel<<<B, 32, shared, stream>>>(log_probs.data_ptr<float>(), targets.data_ptr<int64_t>(), frames.data_ptr<int64_t>(),
                                                  lengths.data_ptr<int64_t>(), loss.data_ptr<float>(), B, C, S, blank);
    return loss;
}
"""

ctc = load_inline(
    name="ctc_shared",
    cpp_sources="torch::Tensor ctc_forward(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank);",
    cuda_sources=source,
    functions=["ctc_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return ctc.ctc_forward(logits.contiguous(), targets.contiguous(), frames.contiguous(), lengths.contiguous(), self.blank)
