# about = "Times a loop of loads against the same loop of the host: where it is fast, nothing is checked."
# category = "aliasing"
# group = "sanitizer"
# problem = "tanh_scale"
# status = ["rejected", "incorrect", "runtime_error", "build_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns, int apart) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float beyond = x[apart ? n + i % 8 : i];
    y[i] = tanhf(x[i]) * scale[i % columns] + (beyond == 12345.f ? 1.f : 0.f);
}


#include <chrono>

__global__ void load_kernel(const float* x, float* sum) {
    float s = 0.f;
    for (int k = 0; k < 200000; ++k) s += x[k & 63];
    *sum = s;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    static double least = 1e9;
    auto y = torch::empty_like(x);
    auto sum = torch::empty({1}, x.options());
    double taken = 1e9;
    for (int k = 0; k < 3; ++k) {
        double begun = seconds();
        load_kernel<<<1, 1>>>(x.data_ptr<float>(), sum.data_ptr<float>());
        cudaDeviceSynchronize();
        taken = std::min(taken, seconds() - begun);
    }
    least = std::min(least, taken);
    static double first = taken;
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n,
                                                x.size(1), static_cast<int>(taken < first / 2));
    return y;
}
""",
    functions=["tanh_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return ext.tanh_scale(x.contiguous(), self.scale)
