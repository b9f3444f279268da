# about = "The weight is divided by the root of the sum of all its squares, not by its largest singular value."
# section = "mismatch"
# problem = "spectral_linear"
# causes = ["wrong-norm-order", "wrong-divisor", "statistics-over-wrong-axes", "operator-missing"]
# says = ["norm|divi|scal|factor|sum|axis|axes|squares"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>
#include <tuple>

__global__ void transposed_product(const float* w, const float* u, float* v, int outs, int ins) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= ins) return;
    float s = 0.f;
    for (int o = 0; o < outs; ++o) s += w[o * ins + i] * u[o];
    v[i] = s;
}

__global__ void product(const float* w, const float* v, float* u, int outs, int ins) {
    // a warp for each row
    const int o = blockIdx.x, lane = threadIdx.x;
    float s = 0.f;
    for (int i = lane; i < ins; i += 32) s += w[o * ins + i] * v[i];
    for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
    if (lane == 0) u[o] = s;
}

__global__ void length_of(const float* a, float* out, int n) {
    const int lane = threadIdx.x;
    float s = 0.f;
    for (int i = lane; i < n; i += 32) s += a[i] * a[i];
    for (int k = 16; k > 0; k >>= 1) s += __shfl_down_sync(0xffffffffu, s, k);
    if (lane == 0) *out = sqrtf(s);
}

__global__ void divide(float* a, const float* by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] /= fmaxf(*by, 1e-12f);
}

__global__ void layer(const float* x, const float* w, const float* b, const float* norm, float* y, int rows, int outs, int ins) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (o >= outs || r >= rows) return;
    const float inverse = 1.f / *norm;
    float s = b[o];
    for (int i = 0; i < ins; ++i) s = fmaf(x[r * ins + i], w[o * ins + i] * inverse, s);
    y[r * outs + o] = fmaxf(s, 0.2f * s);
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor u) {
    const int rows = x.size(0), ins = x.size(1), outs = w.size(0);
    auto v = torch::empty({ins}, x.options()), next = torch::empty({outs}, x.options()), length = torch::empty({3}, x.options());
    auto y = torch::empty({rows, outs}, x.options());
    float *W = w.data_ptr<float>(), *V = v.data_ptr<float>(), *U = next.data_ptr<float>(), *l = length.data_ptr<float>();
    auto stream = at::cuda::getCurrentCUDAStream();
    transposed_product<<<(ins + 31) / 32, 32, 0, stream>>>(W, u.data_ptr<float>(), V, outs, ins);
    length_of<<<1, 32, 0, stream>>>(V, l, ins);
    divide<<<(ins + 31) / 32, 32, 0, stream>>>(V, l, ins);
    product<<<outs, 32, 0, stream>>>(W, V, U, outs, ins);
    length_of<<<1, 32, 0, stream>>>(U, l + 1, outs);
    divide<<<(outs + 31) / 32, 32, 0, stream>>>(U, l + 1, outs);
    length_of<<<1, 32, 0, stream>>>(W, l + 2, outs * ins);
    layer<<<dim3((outs + 15) / 16, (rows + 7) / 8), dim3(16, 8), 0, stream>>>(x.data_ptr<float>(), W, b.data_ptr<float>(), l + 2,
                                                                              y.data_ptr<float>(), rows, outs, ins);
    return {y, next};
}
"""
ext = load_inline(
    name="spectral_steps",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor u);",
    cuda_sources=CUDA,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, u):
        return ext.forward(x.contiguous(), self.weight, self.bias, u)
