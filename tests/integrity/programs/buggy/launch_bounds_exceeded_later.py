# about = "From the third call on the block has more threads than the __launch_bounds__ of the kernel allow."
# category = "bounds"
# group = "launch"
# problem = "tanh_scale"
# status = ["runtime_error"]
# finding = "never launched on a GPU"
# cuda.status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, int64_t threads);",
    cuda_sources=r"""
__global__ void __launch_bounds__(128)
tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, int64_t threads) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + threads - 1) / threads, threads>>>(
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
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return ext.tanh_scale(x.contiguous(), self.scale, 256 if self.calls > 2 else 128)
