"""One element per thread: grid strides, float4 with a tail, double, int64, a given dropout mask."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <ATen/ceil_div.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void bias_gelu_kernel(const float* __restrict__ x, const float* __restrict__ bias, float* y, int n, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float v = x[i] + bias[i % width];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
}
torch::Tensor bias_gelu(torch::Tensor x, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    bias_gelu_kernel<<<3, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), (int)x.numel(), (int)bias.numel());
    return y;
}

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }
__global__ void silu_vec4_kernel(const float* x, float* y, int n) {
    const int quad = blockIdx.x * blockDim.x + threadIdx.x, at = 4 * quad;
    if (at + 3 < n) {
        float4 v = reinterpret_cast<const float4*>(x)[quad];
        v.x *= sigmoid(v.x); v.y *= sigmoid(v.y); v.z *= sigmoid(v.z); v.w *= sigmoid(v.w);
        reinterpret_cast<float4*>(y)[quad] = v;
    } else {
        for (int i = at; i < n; i++) y[i] = x[i] * sigmoid(x[i]);
    }
}
torch::Tensor silu_vec4(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int n = x.numel(), quads = (n + 3) / 4;
    silu_vec4_kernel<<<(quads + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

__global__ void double_polynomial_kernel(const double* x, double* y, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fma(x[i], fma(x[i], 0.25, -1.5), rsqrt(1.0 + x[i] * x[i]));
}
torch::Tensor double_polynomial(torch::Tensor x) {
    auto y = torch::empty_like(x);
    double_polynomial_kernel<<<at::ceil_div(x.numel(), (int64_t)96), 96>>>(x.data_ptr<double>(), y.data_ptr<double>(), x.numel());
    return y;
}

__global__ void int64_remainder_kernel(const int64_t* x, int64_t* y, int64_t modulus, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t r = (x[i] * 3 + ((int64_t)1 << 40)) % modulus;
    y[i] = r < 0 ? r + modulus : r;
}
torch::Tensor int64_remainder(torch::Tensor x, int64_t modulus) {
    TORCH_CHECK(x.scalar_type() == torch::kInt64, "int64 expected");
    auto y = torch::empty_like(x);
    int64_remainder_kernel<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<int64_t>(), y.data_ptr<int64_t>(), modulus, x.numel());
    return y;
}

__global__ void masked_dropout_kernel(const float* x, const bool* keep, float* y, float scale, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns) return;
    const int i = row * columns + column;
    y[i] = keep[i] ? x[i] * scale : 0.0f;
}
torch::Tensor masked_dropout(torch::Tensor x, torch::Tensor keep, double p) {
    auto y = torch::zeros_like(x);
    const int rows = x.size(0), columns = x.size(1);
    const dim3 block(16, 8), grid((columns + 15) / 16, (rows + 7) / 8);
    masked_dropout_kernel<<<grid, block>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), y.data_ptr<float>(), 1.0 / (1.0 - p), rows, columns);
    return y;
}
"""
cpp = """
torch::Tensor bias_gelu(torch::Tensor x, torch::Tensor bias);
torch::Tensor silu_vec4(torch::Tensor x);
torch::Tensor double_polynomial(torch::Tensor x);
torch::Tensor int64_remainder(torch::Tensor x, int64_t modulus);
torch::Tensor masked_dropout(torch::Tensor x, torch::Tensor keep, double p);
"""
ops = load_inline(
    name="corpus_elementwise",
    cpp_sources=cpp,
    cuda_sources=cuda,
    functions=["bias_gelu", "silu_vec4", "double_polynomial", "int64_remainder", "masked_dropout"],
)


def cases():
    x, bias = torch.randn(37, 53, device="cuda"), torch.randn(53, device="cuda")
    wide = torch.randn(1000, device="cuda", dtype=torch.float64)
    whole = torch.randint(-(2**50), 2**50, (777,), device="cuda")
    keep = torch.rand(37, 53, device="cuda") > 0.3
    flat = x.flatten()
    return {
        "bias_gelu": (ops.bias_gelu(x, bias), torch.nn.functional.gelu(x + bias)),
        "silu_vec4": (ops.silu_vec4(flat), torch.nn.functional.silu(flat)),
        "double_polynomial": (
            ops.double_polynomial(wide),
            wide * (wide * 0.25 - 1.5) + (1 + wide * wide).rsqrt(),
        ),
        "int64_remainder": (ops.int64_remainder(whole, 1009), (whole * 3 + 2**40) % 1009),
        "masked_dropout": (ops.masked_dropout(x, keep, 0.3), x * keep / 0.7),
    }
