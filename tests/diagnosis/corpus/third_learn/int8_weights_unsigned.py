# about = "The packed weights are unpacked as unsigned bytes, so that negative ones are too large by 256."
# section = "mismatch"
# problem = "dynamic_int8_linear"
# causes = ["sign-error", "bits-compared", "layout-misread", "data-ptr-type", "constant-added", "index-overflow", "wrong-dtype", "truncated-to-integer", "type-mismatch"]
# says = ["sign|negative|byte|bits|type|256|overflow|layout|constant|int8|wrap|added"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void row_steps(const float* x, float* steps, int rows, int k) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = 1e-8f;
    for (int i = 0; i < k; ++i) m = fmaxf(m, fabsf(x[r * k + i]));
    steps[r] = m / 127.0f;
}

// Four weights in one 32 bit load.
__global__ void w8a8(const float4* x, const unsigned int* w, const int8_t* zero, const float* scale, const float* bias, const float* steps,
                     float* y, int rows, int outs, int words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * outs) return;
    int r = i / outs, o = i % outs;
    float step = steps[r];
    int acc = 0, z = zero[o];
    for (int j = 0; j < words; ++j) {
        float4 v = x[r * words + j];
        unsigned int packed = w[o * words + j];
        int w0 = packed & 0xff;
        int w1 = (packed >> 8) & 0xff;
        int w2 = (packed >> 16) & 0xff;
        int w3 = packed >> 24;
        acc += (int)rintf(v.x / step) * (w0 - z);
        acc += (int)rintf(v.y / step) * (w1 - z);
        acc += (int)rintf(v.z / step) * (w2 - z);
        acc += (int)rintf(v.w / step) * (w3 - z);
    }
    y[i] = (float)acc * step * scale[o] + bias[o];
}

torch::Tensor w8a8_linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias) {
    int rows = x.size(0), k = x.size(1), outs = w.size(0);
    TORCH_CHECK(k % 4 == 0, "inputs must be a multiple of four");
    auto steps = torch::empty({rows}, x.options());
    auto y = torch::empty({rows, outs}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    row_steps<<<1, 32, 0, stream>>>(x.data_ptr<float>(), steps.data_ptr<float>(), rows, k);
    w8a8<<<(rows * outs + 63) / 64, 64, 0, stream>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<const unsigned int*>(w.data_ptr<int8_t>()),
        zero.data_ptr<int8_t>(), scale.data_ptr<float>(), bias.data_ptr<float>(), steps.data_ptr<float>(), y.data_ptr<float>(), rows, outs,
        k / 4);
    return y;
}
"""
w8a8 = load_inline(
    name="w8a8_linear",
    cpp_sources="torch::Tensor w8a8_linear(torch::Tensor x, torch::Tensor w, torch::Tensor zero, torch::Tensor scale, torch::Tensor bias);",
    cuda_sources=source,
    functions=["w8a8_linear"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, weight, zero, scale):
        return w8a8.w8a8_linear(x.contiguous(), weight.contiguous(), zero.contiguous(), scale.contiguous(), self.bias)
