# about = "The radial function takes the distance, not its square."
# section = "mismatch"
# problem = "rbf_interpolation"
# causes = ["square-omitted", "wrong-norm-order", "operator-missing"]
# says = ["squar|power|root|distance|norm|missing"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

// Block per point, thread per centre.
__global__ void rbf_kernel(const float* x, const float* centres, const float* log_rate, const float* values, float* y,
                           int n_centres, int width, int n_values) {
    __shared__ float w[64];
    __shared__ float total;
    const int p = blockIdx.x, c = threadIdx.x;
    float weight = 0.f;
    if (c < n_centres) {
        float d2 = 0.f;
        for (int k = 0; k < width; ++k) {
            float diff = x[p * width + k] - centres[c * width + k];
            d2 += diff * diff;
        }
        float dist = sqrtf(d2);
        weight = expf(-dist * expf(log_rate[c]));
    }
    w[c] = weight;
    __syncthreads();
    if (c == 0) {
        float s = 0.f;
        for (int i = 0; i < n_centres; ++i) s += w[i];
        total = s + 0.01f;
    }
    __syncthreads();
    if (c < n_values) {
        float acc = 0.f;
        for (int i = 0; i < n_centres; ++i) acc += w[i] * values[i * n_values + c];
        y[p * n_values + c] = acc / total;
    }
}

torch::Tensor rbf(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values) {
    TORCH_CHECK(centres.size(0) <= 64 && values.size(1) <= 64);
    auto y = torch::empty({x.size(0), values.size(1)}, x.options());
    rbf_kernel<<<x.size(0), 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), centres.data_ptr<float>(), log_rate.data_ptr<float>(), values.data_ptr<float>(), y.data_ptr<float>(),
        centres.size(0), x.size(1), values.size(1));
    return y;
}
"""

rbf = load_inline(
    name="rbf_interp",
    cpp_sources="torch::Tensor rbf(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values);",
    cuda_sources=source,
    functions=["rbf"],
)


class ModelNew(nn.Module):
    def __init__(self, centres, width, values):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, width))
        self.log_rate = nn.Parameter(torch.randn(centres) * 0.3 - 1)
        self.values = nn.Parameter(torch.randn(centres, values))

    def forward(self, x):
        return rbf.rbf(x.contiguous(), self.centres, self.log_rate, self.values)
