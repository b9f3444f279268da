# about = "Right: a warp for each point, lanes hold the centres, sums of every value by a butterfly."
# section = "right"
# problem = "rbf_interpolation"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ inline float everywhere(float v) {
    for (int o = 1; o < 32; o *= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void lanes(const float* x, const float* centres, const float* log_rate, const float* values, float* y, int n, int m, int width,
                      int outs) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= n) return;
    float weight = 0.f;
    if (lane < m) {
        float square = 0.f;
        for (int k = 0; k < width; ++k) {
            const float d = x[i * width + k] - centres[lane * width + k];
            square = fmaf(d, d, square);
        }
        weight = expf(-square * expf(log_rate[lane]));
    }
    const float total = everywhere(weight) + 0.01f;
    float mine = 0.f;
    for (int o = 0; o < outs; ++o) {
        const float s = everywhere(lane < m ? weight * values[lane * outs + o] : 0.f);
        if (lane == o) mine = s / total;
    }
    if (lane < outs) y[i * outs + lane] = mine;
}

torch::Tensor lanes_forward(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values) {
    const int n = x.size(0), m = centres.size(0), outs = values.size(1);
    TORCH_CHECK(m <= 32 && outs <= 32, "up to 32 centres and values");
    auto y = torch::empty({n, outs}, x.options());
    lanes<<<(n + 1) / 2, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), centres.data_ptr<float>(),
                                                                  log_rate.data_ptr<float>(), values.data_ptr<float>(), y.data_ptr<float>(),
                                                                  n, m, x.size(1), outs);
    return y;
}
"""
ext = load_inline(
    name="rbf_lanes",
    cpp_sources="torch::Tensor lanes_forward(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values);",
    cuda_sources=SRC,
    functions=["lanes_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, centres, width, values):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, width))
        self.log_rate = nn.Parameter(torch.randn(centres) * 0.3 - 1)
        self.values = nn.Parameter(torch.randn(centres, values))

    def forward(self, x):
        return ext.lanes_forward(x.contiguous(), self.centres, self.log_rate, self.values)
