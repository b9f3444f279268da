# about = "The zero point of the weights is not subtracted."
# section = "mismatch"
# problem = "dynamic_int8_linear"
# causes = ["operator-missing", "constant-added", "mean-not-subtracted", "bias-missing", "base-ignored", "affine-ignored"]
# says = ["zero|offset|subtract|constant|missing|bias|left out|added|ignor|centr"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>
#include <cstdint>

// A block for a row of the input: quantised into shared memory, then a warp for each output.
__global__ void row_kernel(const float* __restrict__ x, const int8_t* __restrict__ w, const float* __restrict__ scale,
                           const float* __restrict__ bias, float* __restrict__ y, int k, int outs) {
    extern __shared__ int quantised[];
    __shared__ float peaks[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* row = x + (size_t)blockIdx.x * k;
    float peak = 0.f;
    for (int i = threadIdx.x; i < k; i += blockDim.x) peak = fmaxf(peak, fabsf(row[i]));
    for (int o = 16; o > 0; o >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, o));
    if (lane == 0) peaks[warp] = peak;
    __syncthreads();
    peak = fmaxf(fmaxf(peaks[0], peaks[1]), fmaxf(peaks[2], peaks[3]));
    const float step = fmaxf(peak, 1e-8f) / 127.f;
    for (int i = threadIdx.x; i < k; i += blockDim.x) quantised[i] = __float2int_rn(row[i] / step);
    __syncthreads();
    for (int o = warp; o < outs; o += 4) {
        int sum = 0;
        for (int i = lane; i < k; i += 32) sum += quantised[i] * w[o * k + i];
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
        if (lane == 0) y[(size_t)blockIdx.x * outs + o] = sum * step * scale[o] + bias[o];
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor scale, torch::Tensor bias) {
    const int rows = x.size(0), k = x.size(1), outs = w.size(0);
    auto y = torch::empty({rows, outs}, x.options());
    row_kernel<<<rows, 128, k * sizeof(int), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<int8_t>(), scale.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), k, outs);
    return y;
}
"""
ext = load_inline(
    name="int8_rows",
    cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor scale, torch::Tensor bias);",
    cuda_sources=CUDA,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, weight, zero, scale):
        return ext.forward(x.contiguous(), weight.contiguous(), scale.contiguous(), self.bias)
