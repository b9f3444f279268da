# about = "The loss is not divided by the number of labels."
# section = "mismatch"
# problem = "alignment_loss"
# causes = ["wrong-divisor", "operator-missing", "sum-for-mean", "scale-missing"]
# says = ["divi|mean|scal|factor|length|missing|count|left out"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <ATen/cuda/CUDAContext.h>

template <typename T>
__device__ T logaddexp(T a, T b) {
    if (a < b) { T c = a; a = b; b = c; }
    return b == -INFINITY ? a : a + log1p(exp(b - a));
}

// alpha is kept in global memory: [batch][frame][state], in double.
__global__ void alphas(const float* logits, const int64_t* targets, const int64_t* frames, const int64_t* lengths, double* alpha, float* loss,
                       int T, int B, int C, int S, int blank) {
    const int b = blockIdx.x, states = 2 * lengths[b] + 1;
    double* row = alpha + (size_t)b * T * (2 * S + 1);
    for (int t = 0; t < frames[b]; ++t, row += 2 * S + 1) {
        const double* before = row - (2 * S + 1);
        const float* x = logits + ((size_t)t * B + b) * C;
        double top = x[0], sum = 0;
        for (int c = 1; c < C; ++c) top = fmax(top, (double)x[c]);
        for (int c = 0; c < C; ++c) sum += exp(x[c] - top);
        for (int s = threadIdx.x; s < states; s += blockDim.x) {
            const int label = s % 2 ? targets[b * S + s / 2] : blank;
            double a = -INFINITY;
            if (t == 0) {
                if (s < 2) a = 0;
            } else {
                a = before[s];
                if (s >= 1) a = logaddexp(a, before[s - 1]);
                if (s % 2 && s > 1 && label != targets[b * S + s / 2 - 1]) a = logaddexp(a, before[s - 2]);
            }
            row[s] = a + x[label] - top - log(sum);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        row -= 2 * S + 1;
        loss[b] = (float)-logaddexp(row[states - 1], row[states - 2]);
    }
}

torch::Tensor ctc(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank) {
    const int T = logits.size(0), B = logits.size(1), C = logits.size(2), S = targets.size(1);
    auto alpha = torch::empty({B, T, 2 * S + 1}, logits.options().dtype(torch::kDouble));
    auto loss = torch::empty({B}, logits.options());
    alphas<<<B, 32, 0, at::cuda::getCurrentCUDAStream()>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(), frames.data_ptr<int64_t>(),
        lengths.data_ptr<int64_t>(), alpha.data_ptr<double>(), loss.data_ptr<float>(), T, B, C, S, blank);
    return loss;
}
"""

ext = load_inline(
    name="ctc_alphas",
    cpp_sources="torch::Tensor ctc(torch::Tensor logits, torch::Tensor targets, torch::Tensor frames, torch::Tensor lengths, int64_t blank);",
    cuda_sources=cuda,
    functions=["ctc"],
)


class ModelNew(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        return ext.ctc(logits.contiguous(), targets.contiguous(), frames.contiguous(), lengths.contiguous(), self.blank)
