# about = "Scores are not scaled, and the values are those of the first head of each sample."
# section = "mismatch"
# problem = "attention_plain"
# faults = [{causes = ["scale-missing", "root-omitted"], says = ["scal|root|sqrt|divi"]}, {causes = ["wrong-channel", "index-ignored", "layout-misread", "keepdim-broadcast"], says = ["head|value|ind|dim|channel"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <c10/cuda/CUDAStream.h>

__global__ void attend(const float* q, const float* k, const float* v, float* y, int heads, int n, int m, int d) {
    // grid: (n, heads, batch), block: 128 threads
    extern __shared__ float w[];
    __shared__ float red[128];
    const int b = blockIdx.z, h = blockIdx.y, i = blockIdx.x, t = threadIdx.x;
    const float* qi = q + ((b * heads + h) * n + i) * d;
    const float* kh = k + (b * heads + h) * m * d;
    const float* vh = v + b * heads * m * d;

    float best = -1e30f;
    for (int j = t; j < m; j += blockDim.x) {
        float dot = 0.f;
        for (int c = 0; c < d; ++c) dot += qi[c] * kh[j * d + c];
        w[j] = dot;
        best = fmaxf(best, dot);
    }
    red[t] = best;
    __syncthreads();
    for (int s = 64; s > 0; s /= 2) {
        if (t < s) red[t] = fmaxf(red[t], red[t + s]);
        __syncthreads();
    }
    best = red[0];
    __syncthreads();
    float part = 0.f;
    for (int j = t; j < m; j += blockDim.x) {
        w[j] = expf(w[j] - best);
        part += w[j];
    }
    red[t] = part;
    __syncthreads();
    for (int s = 64; s > 0; s /= 2) {
        if (t < s) red[t] += red[t + s];
        __syncthreads();
    }
    const float inv = 1.f / red[0];
    for (int c = t; c < d; c += blockDim.x) {
        float sum = 0.f;
        for (int j = 0; j < m; ++j) sum += w[j] * vh[j * d + c];
        y[((b * heads + h) * n + i) * d + c] = sum * inv;
    }
}

torch::Tensor attend_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    const int b = q.size(0), h = q.size(1), n = q.size(2), d = q.size(3), m = k.size(2);
    torch::Tensor y = torch::empty({b, h, n, d}, q.options());
    attend<<<dim3(n, h, b), 128, m * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>(), h, n, m, d);
    return y;
}
"""

ops = load_inline(
    name="block_attention",
    cpp_sources="torch::Tensor attend_cuda(torch::Tensor, torch::Tensor, torch::Tensor);",
    cuda_sources=CUDA,
    functions=["attend_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ops.attend_cuda(q.contiguous(), k.contiguous(), v.contiguous())
