# about = "The weights of each centre are divided by their sum over the points, not those of each point by their sum over the centres."
# section = "mismatch"
# problem = "rbf_interpolation"
# causes = ["wrong-axis", "softmax-wrong-axis", "statistics-over-wrong-axes", "statistics-over-batch", "keepdim-broadcast", "wrong-divisor", "transposed-operand", "layout-misread"]
# says = ["axis|dim|along|over|row|column|point|batch|normal|divi|sum|broadcast|transpos"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void weights_kernel(const float* x, const float* c, const float* log_rate, float* w, int n, int m, int width) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= m) return;
    float d = 0.f;
    for (int k = 0; k < width; ++k) d += (x[i * width + k] - c[j * width + k]) * (x[i * width + k] - c[j * width + k]);
    w[i * m + j] = expf(-d * expf(log_rate[j]));
}

__global__ void sum_kernel(const float* w, float* sum, int n, int m) {
    // one warp per centre
    const int j = blockIdx.x, lane = threadIdx.x;
    float s = 0.f;
    for (int i = lane; i < n; i += 32) s += w[i * m + j];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (lane == 0) sum[j] = s + 0.01f;
}

__global__ void values_kernel(const float* w, const float* sum, const float* v, float* y, int n, int m, int o) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * o) return;
    const int i = at / o, k = at % o;
    float s = 0.f;
    for (int j = 0; j < m; ++j) s += w[i * m + j] / sum[j] * v[j * o + k];
    y[at] = s;
}

torch::Tensor interpolate(torch::Tensor x, torch::Tensor c, torch::Tensor log_rate, torch::Tensor v) {
    const int n = x.size(0), width = x.size(1), m = c.size(0), o = v.size(1);
    auto w = torch::empty({n, m}, x.options());
    auto sum = torch::empty({m}, x.options());
    auto y = torch::empty({n, o}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    weights_kernel<<<dim3((m + 15) / 16, (n + 7) / 8), dim3(16, 8), 0, stream>>>(x.data_ptr<float>(), c.data_ptr<float>(),
                                                                                 log_rate.data_ptr<float>(), w.data_ptr<float>(), n, m, width);
    sum_kernel<<<m, 32, 0, stream>>>(w.data_ptr<float>(), sum.data_ptr<float>(), n, m);
    values_kernel<<<(n * o + 63) / 64, 64, 0, stream>>>(w.data_ptr<float>(), sum.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>(),
                                                        n, m, o);
    return y;
}
"""
ext = load_inline(
    name="rbf_three_kernels",
    cpp_sources="torch::Tensor interpolate(torch::Tensor x, torch::Tensor c, torch::Tensor log_rate, torch::Tensor v);",
    cuda_sources=CUDA,
    functions=["interpolate"],
)


class ModelNew(nn.Module):
    def __init__(self, centres, width, values):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, width))
        self.log_rate = nn.Parameter(torch.zeros(centres))
        self.values = nn.Parameter(torch.randn(centres, values))

    def forward(self, x):
        return ext.interpolate(x.contiguous(), self.centres, self.log_rate, self.values)
