# about = "Right: the zero point is taken off at the end, by the sum of the quantised row."
# section = "right"
# problem = "dynamic_int8_linear"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// sum_i q_i (w_i - z) = sum_i q_i w_i - z sum_i q_i, all in integers.
__global__ void quantise(const float* x, int8_t* q, float* step, int* row_sum, int k) {
    const int r = blockIdx.x, lane = threadIdx.x;
    float peak = 0.f;
    for (int i = lane; i < k; i += 32) peak = fmaxf(peak, fabsf(x[r * k + i]));
    for (int o = 16; o > 0; o >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, o));
    const float s = fmaxf(peak, 1e-8f) / 127.f;
    int sum = 0;
    for (int i = lane; i < k; i += 32) {
        const int v = min(max(__float2int_rn(x[r * k + i] / s), -127), 127);
        q[r * k + i] = (int8_t)v;
        sum += v;
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (lane == 0) {
        step[r] = s;
        row_sum[r] = sum;
    }
}

__global__ void multiply(const int8_t* q, const float* step, const int* row_sum, const int8_t* w, const int8_t* zero, const float* scale,
                         const float* bias, float* y, int rows, int outs, int k) {
    __shared__ int a[8][9], b[8][9];
    const int r = blockIdx.y * 8 + threadIdx.y, o = blockIdx.x * 8 + threadIdx.x, wo = blockIdx.x * 8 + threadIdx.y;
    int sum = 0;
    for (int first = 0; first < k; first += 8) {
        const int i = first + threadIdx.x;
        a[threadIdx.y][threadIdx.x] = r < rows && i < k ? q[r * k + i] : 0;
        b[threadIdx.y][threadIdx.x] = wo < outs && i < k ? w[wo * k + i] : 0;
        __syncthreads();
        for (int j = 0; j < 8; ++j) sum += a[threadIdx.y][j] * b[threadIdx.x][j];
        __syncthreads();
    }
    if (r < rows && o < outs) y[r * outs + o] = (float)(sum - zero[o] * row_sum[r]) * step[r] * scale[o] + bias[o];
}

torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias) {
    const int rows = x.size(0), k = x.size(1), outs = w.size(0);
    auto q = torch::empty({rows, k}, w.options());
    auto step = torch::empty({rows}, x.options()), y = torch::empty({rows, outs}, x.options());
    auto row_sum = torch::empty({rows}, x.options().dtype(torch::kInt32));
    auto stream = at::cuda::getCurrentCUDAStream();
    quantise<<<rows, 32, 0, stream>>>(x.data_ptr<float>(), q.data_ptr<int8_t>(), step.data_ptr<float>(), row_sum.data_ptr<int>(), k);
    multiply<<<dim3((outs + 7) / 8, (rows + 7) / 8), dim3(8, 8), 0, stream>>>(
        q.data_ptr<int8_t>(), step.data_ptr<float>(), row_sum.data_ptr<int>(), w.data_ptr<int8_t>(), zero.data_ptr<int8_t>(),
        scale.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, outs, k);
    return y;
}
"""
ext = load_inline(
    name="int8_row_sums",
    cpp_sources="torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias);",
    cuda_sources=SRC,
    functions=["linear"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, weight, zero, scale):
        return ext.linear(x.contiguous(), weight.contiguous(), zero.contiguous(), scale.contiguous(), self.bias)
