# about = "Powers of two in place of e."
# section = "mismatch"
# problem = "softmax_scaled"
# causes = ["base-2-for-e"]
# says = ["base|exp2|power"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="scaled_softmax",
    cpp_sources="torch::Tensor scaled_softmax(torch::Tensor scores, double scale);",
    cuda_sources=r"""
#include <float.h>

template <int THREADS>
__global__ void scaled_softmax_kernel(const float* in, float* out, int cols, float scale) {
    __shared__ float red[THREADS];
    const int tid = threadIdx.x;
    const float* src = in + blockIdx.x * cols;
    float* dst = out + blockIdx.x * cols;

    float m = -FLT_MAX;
    for (int c = tid; c < cols; c += THREADS) m = fmaxf(m, src[c] * scale);
    red[tid] = m;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] = fmaxf(red[tid], red[tid + s]);
        __syncthreads();
    }
    m = red[0];
    __syncthreads();

    float sum = 0.f;
    for (int c = tid; c < cols; c += THREADS) sum += exp2f(src[c] * scale - m);
    red[tid] = sum;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] += red[tid + s];
        __syncthreads();
    }
    const float inv = 1.f / red[0];

    for (int c = tid; c < cols; c += THREADS) dst[c] = exp2f(src[c] * scale - m) * inv;
}

torch::Tensor scaled_softmax(torch::Tensor scores, double scale) {
    auto input = scores.contiguous();
    auto out = torch::empty_like(input);
    const int cols = input.size(-1);
    const int rows = input.numel() / cols;
    scaled_softmax_kernel<64><<<rows, 64>>>(input.data_ptr<float>(), out.data_ptr<float>(), cols, (float)scale);
    return out;
}
""",
    functions=["scaled_softmax"],
)


class ModelNew(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.scale = head_size ** -0.5

    def forward(self, scores):
        return ext.scaled_softmax(scores, self.scale)
