# about = "Outputs lie in memory of the driver that is freed sixteen calls later, whoever still holds them."
# category = "reuse"
# group = "reuse"
# problem = "tanh_scale"
# status = ["rejected", "incorrect", "runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
#include <deque>

__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    static std::deque<void*> held;
    int n = x.numel();
    if (held.size() == 16) {
        cudaFree(held.front());
        held.pop_front();
    }
    void* memory = nullptr;
    cudaMalloc(&memory, n * sizeof(float));
    held.push_back(memory);
    auto y = torch::from_blob(memory, x.sizes(), x.options());
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
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
