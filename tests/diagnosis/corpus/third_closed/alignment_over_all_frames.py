# about = "Every sample runs over all frames; the number of its frames is ignored."
# section = "mismatch"
# problem = "alignment_loss"
# causes = ["mask-ignored", "padding-ignored", "segments-ignored", "hard-coded-size", "index-ignored", "operator-missing", "ignored-class-counted"]
# says = ["mask|pad|length|frame|segment|size|index|ignor|sample|time|step"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void log_softmax_rows(const float* x, float* y, int C) {
    int row = blockIdx.x, lane = threadIdx.x;
    float m = -INFINITY, s = 0.0f;
    for (int c = lane; c < C; c += 32) m = fmaxf(m, x[row * C + c]);
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    for (int c = lane; c < C; c += 32) s += expf(x[row * C + c] - m);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    for (int c = lane; c < C; c += 32) y[row * C + c] = x[row * C + c] - m - logf(s);
}

__device__ float add_logs(float a, float b) {
    float hi = fmaxf(a, b), lo = fminf(a, b);
    return lo == -INFINITY ? hi : hi + logf(1.0f + expf(lo - hi));
}

// A warp per sample: lane = state of the extended label sequence, neighbours by shuffles.
__global__ void ctc_warp(const float* lp, const int64_t* targets, const int64_t* lengths, float* loss, int T, int B, int C, int S, int blank) {
    int b = blockIdx.x, s = threadIdx.x;
    int L = lengths[b], n = 2 * L + 1;
    int64_t label = blank;
    bool skip = false;
    if (s < n && (s & 1)) {
        label = targets[b * S + s / 2];
        skip = s >= 3 && targets[b * S + s / 2 - 1] != label;
    }
    float a = s < 2 ? lp[b * C + label] : -INFINITY;
    for (int t = 1; t < T; ++t) {
        float one = __shfl_up_sync(0xffffffff, a, 1);
        float two = __shfl_up_sync(0xffffffff, a, 2);
        if (s >= 1) a = add_logs(a, one);
        if (skip) a = add_logs(a, two);
        a += lp[(t * B + b) * C + label];
        if (s >= n) a = -INFINITY;
    }
    float last = __shfl_sync(0xffffffff, a, n - 1);
    float before = __shfl_sync(0xffffffff, a, n - 2);
    if (s == 0) loss[b] = -add_logs(last, before) / (float)L;
}

torch::Tensor ctc_loss_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor lengths, int64_t blank) {
    int T = logits.size(0), B = logits.size(1), C = logits.size(2), S = targets.size(1);
    TORCH_CHECK(2 * S + 1 <= 32, "at most 15 labels");
    auto lp = torch::empty_like(logits);
    auto loss = torch::empty({B}, logits.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    log_softmax_rows<<<T * B, 32, 0, stream>>>(logits.data_ptr<float>(), lp.data_ptr<float>(), C);
    ctc_warp<<<B, 32, 0, stream>>>(lp.data_ptr<float>(), targets.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(),
                                   loss.data_ptr<float>(), T, B, C, S, blank);
    return loss;
}
"""

mod = load_inline(
    name="ctc_warp",
    cpp_sources="torch::Tensor ctc_loss_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor lengths, int64_t blank);",
    cuda_sources=cuda_src,
    functions=["ctc_loss_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return mod.ctc_loss_cuda(logits.contiguous(), targets.contiguous(), lengths.contiguous(), self.blank)
