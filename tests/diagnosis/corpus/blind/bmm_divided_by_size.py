# about = "Divides by the head size, not by its root."
# section = "mismatch"
# problem = "bmm_scaled"
# causes = ["root-omitted", "wrong-divisor"]
# says = ["root|sqrt|divi|factor|scal"]
# stage = ["verify"]

import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

qk_source = r"""
#include <torch/extension.h>

__global__ void qk_kernel(const float* q, const float* k, float* out, int Q, int KN, int D, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int b = blockIdx.z;
    if (i >= Q || j >= KN) return;
    const float* qb = q + (b * Q + i) * D;
    const float* kb = k + (b * KN + j) * D;
    float acc = 0.f;
    for (int d = 0; d < D; d++) acc = fmaf(qb[d], kb[d], acc);
    out[(b * Q + i) * KN + j] = acc * scale;
}

torch::Tensor qk_scores(torch::Tensor q, torch::Tensor k, double scale) {
    int B = q.size(0), Q = q.size(1), D = q.size(2), KN = k.size(1);
    auto out = torch::empty({B, Q, KN}, q.options());
    dim3 block(16, 8);
    dim3 grid((KN + 15) / 16, (Q + 7) / 8, B);
    qk_kernel<<<grid, block>>>(q.data_ptr<float>(), k.data_ptr<float>(), out.data_ptr<float>(), Q, KN, D, scale);
    return out;
}
"""

qk = load_inline(
    name="qk_scores_ext",
    cpp_sources="torch::Tensor qk_scores(torch::Tensor q, torch::Tensor k, double scale);",
    cuda_sources=qk_source,
    functions=["qk_scores"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k):
        return qk.qk_scores(q.contiguous(), k.contiguous(), 1.0 / q.size(-1))
