"""Several extensions in one file: one with its own PYBIND11_MODULE, one whose names clash with the other's."""

import torch
from torch.utils.cpp_extension import load_inline

first_cuda = r"""
#include <torch/extension.h>
__device__ float gain = 2.0f;
__global__ void shared_name(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = gain * x[i];
}
torch::Tensor apply_gain(torch::Tensor x, double g) {
    const float value = g;
    cudaMemcpyToSymbol(gain, &value, sizeof(value));
    auto y = torch::empty_like(x);
    shared_name<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
second_cpp = r"""
#include <torch/extension.h>
torch::Tensor clamp_launch(torch::Tensor x, float low, float high);
static torch::Tensor hard_tanh(const torch::Tensor& x, float low, float high) {
    TORCH_CHECK(low <= high, "low ", low, " is above high ", high);
    return clamp_launch(x.contiguous(), low, high);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("hard_tanh", &hard_tanh, "clamps", py::arg("x"), py::arg("low") = -1.0, py::arg("high") = 1.0);
}
"""
second_cuda = r"""
#include <torch/extension.h>
__device__ float gain = -1.0f;
__global__ void shared_name(const float4* x, float4* y, float low, float high, int quads) {
    for (int q = blockIdx.x * blockDim.x + threadIdx.x; q < quads; q += gridDim.x * blockDim.x) {
        const float4 v = x[q];
        y[q] = make_float4(fminf(fmaxf(v.x, low), high), fminf(fmaxf(v.y, low), high), fminf(fmaxf(v.z, low), high), fminf(fmaxf(v.w, low), high));
    }
}
torch::Tensor clamp_launch(torch::Tensor x, float low, float high) {
    auto y = torch::empty_like(x);
    shared_name<<<2, 32>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), low, high, x.numel() / 4);
    return y;
}
"""
gain = load_inline(
    name="corpus_gain",
    cpp_sources="torch::Tensor apply_gain(torch::Tensor x, double g);",
    cuda_sources=first_cuda,
    functions=["apply_gain"],
)
clamp = load_inline(name="corpus_clamp", cpp_sources=second_cpp, cuda_sources=second_cuda)


def cases():
    x = torch.randn(30, 20, device="cuda")
    scaled = gain.apply_gain(x, 3.5)
    return {
        "apply_gain": (scaled, 3.5 * x),
        "hard_tanh": (clamp.hard_tanh(scaled, high=0.5), (3.5 * x).clamp(-1, 0.5)),
        "apply_gain_again": (gain.apply_gain(x, -1), -x),
    }
