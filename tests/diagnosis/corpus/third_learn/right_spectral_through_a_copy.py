# about = "Right: the divided weight is written to memory transposed, and the product runs over it by tiles."
# section = "right"
# problem = "spectral_linear"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ double total(double v, double* room) {
    room[threadIdx.x] = v;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += room[i];
    __syncthreads();
    return sum;
}

// One block: v, the new u, its length, and W^T / sigma.
__global__ void scale_weight(const float* w, const float* u, float* next, float* turned, int outs, int ins) {
    extern __shared__ double v[];
    __shared__ double room[64];
    double part = 0;
    for (int i = threadIdx.x; i < ins; i += blockDim.x) {
        double s = 0;
        for (int o = 0; o < outs; ++o) s += (double)w[o * ins + i] * u[o];
        v[i] = s;
        part += s * s;
    }
    const double length = fmax(sqrt(total(part, room)), 1e-12);
    part = 0;
    for (int o = threadIdx.x; o < outs; o += blockDim.x) {
        double s = 0;
        for (int i = 0; i < ins; ++i) s += w[o * ins + i] * v[i];
        s /= length;
        next[o] = (float)s;
        part += s * s;
    }
    const double sigma = sqrt(total(part, room));
    for (int o = threadIdx.x; o < outs; o += blockDim.x) next[o] = (float)(next[o] / sigma);
    for (int j = threadIdx.x; j < outs * ins; j += blockDim.x) turned[j % ins * outs + j / ins] = (float)(w[j] / sigma);
}

__global__ void product(const float* x, const float* turned, const float* bias, float* y, int rows, int ins, int outs) {
    __shared__ float a[8][8], b[8][8];
    const int r = blockIdx.y * 8 + threadIdx.y, o = blockIdx.x * 8 + threadIdx.x;
    float s = 0.f;
    for (int first = 0; first < ins; first += 8) {
        a[threadIdx.y][threadIdx.x] = r < rows && first + threadIdx.x < ins ? x[r * ins + first + threadIdx.x] : 0.f;
        b[threadIdx.y][threadIdx.x] = o < outs && first + threadIdx.y < ins ? turned[(first + threadIdx.y) * outs + o] : 0.f;
        __syncthreads();
        for (int k = 0; k < 8; ++k) s += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (r >= rows || o >= outs) return;
    s += bias[o];
    y[r * outs + o] = s < 0.f ? 0.2f * s : s;
}

torch::Tensor spectral(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor u, torch::Tensor next) {
    const int rows = x.size(0), ins = x.size(1), outs = w.size(0);
    auto turned = torch::empty({ins, outs}, x.options()), y = torch::empty({rows, outs}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    scale_weight<<<1, 64, ins * sizeof(double), stream>>>(w.data_ptr<float>(), u.data_ptr<float>(), next.data_ptr<float>(),
                                                          turned.data_ptr<float>(), outs, ins);
    product<<<dim3((outs + 7) / 8, (rows + 7) / 8), dim3(8, 8), 0, stream>>>(x.data_ptr<float>(), turned.data_ptr<float>(),
                                                                             bias.data_ptr<float>(), y.data_ptr<float>(), rows, ins, outs);
    return y;
}
"""
ext = load_inline(
    name="spectral_copy",
    cpp_sources="torch::Tensor spectral(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor u, torch::Tensor next);",
    cuda_sources=SRC,
    functions=["spectral"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, u):
        next_u = torch.empty_like(u)
        return ext.spectral(x.contiguous(), self.weight, self.bias, u.contiguous(), next_u), next_u
