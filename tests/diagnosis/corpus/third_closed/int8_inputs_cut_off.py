# about = "The scaled inputs are cast to integers, which cuts their fraction off, where the reference rounds."
# section = "mismatch"
# problem = "dynamic_int8_linear"
# causes = ["wrong-rounding", "truncated-to-integer", "reduced-precision"]
# says = ["round|trunc|cut|integer|fraction|nearest|quanti|floor|precision"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void quantize_rows(const float* x, int8_t* q, float* step, int k) {
    __shared__ float peak[64];
    const int row = blockIdx.x;
    float m = 0.f;
    for (int i = threadIdx.x; i < k; i += blockDim.x) m = fmaxf(m, fabsf(x[row * k + i]));
    peak[threadIdx.x] = m;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) peak[threadIdx.x] = fmaxf(peak[threadIdx.x], peak[threadIdx.x + s]);
        __syncthreads();
    }
    const float scale = fmaxf(peak[0], 1e-8f) / 127.f;
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        int v = (int)(x[row * k + i] / scale);
        q[row * k + i] = (int8_t)max(-127, min(127, v));
    }
    if (threadIdx.x == 0) step[row] = scale;
}

__global__ void int8_gemm(const int8_t* q, const float* step, const int8_t* w, const int8_t* zero, const float* scale, const float* bias,
                          float* y, int rows, int outs, int k) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (o >= outs) return;
    int acc = 0;
    for (int i = 0; i < k; ++i) acc += (int)q[r * k + i] * ((int)w[o * k + i] - (int)zero[o]);
    y[r * outs + o] = acc * step[r] * scale[o] + bias[o];
}

torch::Tensor int8_linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias) {
    const int rows = x.size(0), k = x.size(1), outs = w.size(0);
    auto q = torch::empty({rows, k}, w.options());
    auto step = torch::empty({rows}, x.options());
    auto y = torch::empty({rows, outs}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    quantize_rows<<<rows, 64, 0, stream>>>(x.data_ptr<float>(), q.data_ptr<int8_t>(), step.data_ptr<float>(), k);
    int8_gemm<<<dim3((outs + 31) / 32, rows), 32, 0, stream>>>(q.data_ptr<int8_t>(), step.data_ptr<float>(), w.data_ptr<int8_t>(),
                                                               zero.data_ptr<int8_t>(), scale.data_ptr<float>(), bias.data_ptr<float>(),
                                                               y.data_ptr<float>(), rows, outs, k);
    return y;
}
"""

int8 = load_inline(
    name="int8_linear",
    cpp_sources="torch::Tensor int8_linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias);",
    cuda_sources=source,
    functions=["int8_linear"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, weight, zero, scale):
        return int8.int8_linear(x.contiguous(), weight.contiguous(), zero, scale, self.bias)
