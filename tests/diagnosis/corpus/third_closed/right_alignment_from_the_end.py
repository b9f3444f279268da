# about = "Right: the recursion runs from the last frame to the first, in logarithms of double precision."
# section = "right"
# problem = "alignment_loss"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ double add_logs(double a, double b) {
    const double high = fmax(a, b), low = fmin(a, b);
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

// beta_t(s) = sum over the next states of beta_{t+1} * p_{t+1}, as logarithms.
__global__ void backward_pass(const float* x, const int64_t* targets, const int64_t* frames, const int64_t* lengths, float* loss, int B,
                              int C, int S, int blank) {
    const int b = blockIdx.x, s = threadIdx.x, n = 2 * (int)lengths[b] + 1;
    const bool inside = s < n;
    const int label = inside && s % 2 ? (int)targets[b * S + s / 2] : blank;
    const bool over = s % 2 && s + 2 < n && (int)targets[b * S + s / 2 + 1] != label;
    double beta = inside && s >= n - 2 ? 0. : -INFINITY, here = -INFINITY;
    for (int t = (int)frames[b] - 1; t >= 0; --t) {
        const float* row = x + (size_t)(t * B + b) * C;
        double top = row[0], all = 0.;
        for (int c = 1; c < C; ++c) top = fmax(top, (double)row[c]);
        for (int c = 0; c < C; ++c) all += exp(row[c] - top);
        here = beta + row[label] - top - log(all);
        const double one = __shfl_down_sync(0xffffffffu, here, 1), two = __shfl_down_sync(0xffffffffu, here, 2);
        beta = here;
        if (s + 1 < n) beta = add_logs(beta, one);
        if (over) beta = add_logs(beta, two);
    }
    // Alignments begin in the first blank or the first label.
    const double second = __shfl_down_sync(0xffffffffu, here, 1);
    if (s == 0) loss[b] = (float)(-add_logs(here, second) / (double)lengths[b]);
}

torch::Tensor alignment(torch::Tensor x, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank) {
    TORCH_CHECK(2 * targets.size(1) + 1 <= 32, "at most fifteen labels");
    auto loss = torch::empty({x.size(1)}, x.options());
    backward_pass<<<x.size(1), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), targets.data_ptr<int64_t>(), frames.data_ptr<int64_t>(), lengths.data_ptr<int64_t>(),
        loss.data_ptr<float>(), x.size(1), x.size(2), targets.size(1), blank);
    return loss;
}
"""
ext = load_inline(
    name="alignment_backwards",
    cpp_sources="torch::Tensor alignment(torch::Tensor x, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank);",
    cuda_sources=SRC,
    functions=["alignment"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return ext.alignment(logits.contiguous(), targets, frames, lengths, self.blank)
