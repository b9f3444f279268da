# about = "A right answer: rows in shared memory, one thread per row, no logarithm within the sum."
# section = "right"
# problem = "kl_rows"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <cuda_runtime.h>

__global__ void row_kl(const float* a, const float* b, float* out, int rows, int classes) {
    extern __shared__ float tile[];
    const int first = blockIdx.x * blockDim.x;
    const int here = min((int)blockDim.x, rows - first);
    float* ta = tile;
    float* tb = tile + blockDim.x * classes;
    for (int i = threadIdx.x; i < here * classes; i += blockDim.x) {
        ta[i] = a[first * classes + i];
        tb[i] = b[first * classes + i];
    }
    __syncthreads();
    if (threadIdx.x >= here) return;
    ta += threadIdx.x * classes;
    tb += threadIdx.x * classes;
    float ma = ta[0], mb = tb[0];
    for (int c = 1; c < classes; ++c) {
        ma = fmaxf(ma, ta[c]);
        mb = fmaxf(mb, tb[c]);
    }
    float za = 0.f, zb = 0.f;
    for (int c = 0; c < classes; ++c) {
        za += expf(ta[c] - ma);
        zb += expf(tb[c] - mb);
    }
    const float la = logf(za), lb = logf(zb);
    float sum = 0.f;
    for (int c = 0; c < classes; ++c) {
        const float q = (tb[c] - mb) - lb;
        sum += expf(q) * (q - ((ta[c] - ma) - la));
    }
    out[first + threadIdx.x] = sum;
}

torch::Tensor kl(torch::Tensor a, torch::Tensor b) {
    const int classes = a.size(2), rows = a.numel() / classes, threads = 16;
    auto out = torch::empty({a.size(0), a.size(1)}, a.options());
    row_kl<<<(rows + threads - 1) / threads, threads, 2 * threads * classes * sizeof(float)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), rows, classes);
    return out;
}
"""

row_kl = load_inline("row_kl", "torch::Tensor kl(torch::Tensor a, torch::Tensor b);", source, functions=["kl"])


class ModelNew(nn.Module):
    def forward(self, student, teacher):
        return row_kl.kl(student.contiguous(), teacher.contiguous())
