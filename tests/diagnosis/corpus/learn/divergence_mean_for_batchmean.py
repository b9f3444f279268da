# about = "The sum is divided by all elements, not by the batch alone."
# section = "mismatch"
# problem = "kl_batchmean"
# causes = ["wrong-divisor", "mean-for-sum"]
# says = ["divi|batch|mean|count|element"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

kl_cuda = r"""
#include <cuda_runtime.h>

__global__ void kl_rows_kernel(const float* student, const float* teacher, float* rows, int classes) {
    __shared__ float buf[64];
    const float* s = student + blockIdx.x * classes;
    const float* t = teacher + blockIdx.x * classes;
    int tid = threadIdx.x;
    float ms = -INFINITY, mt = -INFINITY;
    for (int c = 0; c < classes; ++c) {
        ms = fmaxf(ms, s[c]);
        mt = fmaxf(mt, t[c]);
    }
    float zs = 0.f, zt = 0.f;
    for (int c = 0; c < classes; ++c) {
        zs += expf(s[c] - ms);
        zt += expf(t[c] - mt);
    }
    float part = 0.f;
    for (int c = tid; c < classes; c += blockDim.x) {
        float logq = s[c] - ms - logf(zs);
        float p = expf(t[c] - mt) / zt;
        if (p > 0.f) part += p * (t[c] - mt - logf(zt) - logq);
    }
    buf[tid] = part;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (tid < k) buf[tid] += buf[tid + k];
        __syncthreads();
    }
    if (tid == 0) rows[blockIdx.x] = buf[0];
}

__global__ void kl_mean_kernel(const float* rows, float* out, int n, int classes) {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += rows[i];
    out[0] = sum / (n * classes);
}

torch::Tensor kl(torch::Tensor student, torch::Tensor teacher) {
    int n = student.size(0), classes = student.size(1);
    auto rows = torch::empty({n}, student.options());
    auto out = torch::empty({}, student.options());
    kl_rows_kernel<<<n, 64>>>(student.data_ptr<float>(), teacher.data_ptr<float>(), rows.data_ptr<float>(), classes);
    kl_mean_kernel<<<1, 1>>>(rows.data_ptr<float>(), out.data_ptr<float>(), n, classes);
    return out;
}
"""

kl = load_inline(name="kl_ext", cpp_sources="torch::Tensor kl(torch::Tensor student, torch::Tensor teacher);",
                 cuda_sources=kl_cuda, functions=["kl"])


class ModelNew(nn.Module):
    def forward(self, student, teacher):
        return kl.kl(student.contiguous(), teacher.contiguous())
