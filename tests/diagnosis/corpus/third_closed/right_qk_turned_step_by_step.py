# about = "Right: a thread follows one pair of features through all steps and turns its angle on by a complex product."
# section = "right"
# problem = "qk_norm_rotary"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// Block: one (batch, head); thread: one pair. The root mean square of each step is found by the whole block.
__global__ void travel(const float* x, const float* gain, float* y, int steps, int heads, int width, double base, int start,
                       float eps) {
    __shared__ float squares[32];
    const int half = width / 2, j = threadIdx.x, b = blockIdx.y, h = blockIdx.x;
    const bool mine = j < half;
    double rate = pow(base, -2.0 * j / width), c = cos(rate * start), s = sin(rate * start);
    const double dc = cos(rate), ds = sin(rate);
    for (int t = 0; t < steps; ++t) {
        const size_t at = ((size_t)(b * steps + t) * heads + h) * width;
        float lo = mine ? x[at + j] : 0.f, hi = mine ? x[at + half + j] : 0.f;
        squares[j] = lo * lo + hi * hi;
        __syncthreads();
        float sum = 0.f;
        for (int i = 0; i < half; ++i) sum += squares[i];
        __syncthreads();
        const float inv = 1.f / sqrtf(sum / width + eps);
        if (mine) {
            lo *= inv * gain[j];
            hi *= inv * gain[half + j];
            y[at + j] = lo * (float)c - hi * (float)s;
            y[at + half + j] = hi * (float)c + lo * (float)s;
        }
        const double next = c * dc - s * ds;
        s = s * dc + c * ds;
        c = next;
    }
}

torch::Tensor travel_forward(torch::Tensor x, torch::Tensor gain, double base, int64_t start, double eps) {
    TORCH_CHECK(x.size(3) <= 64, "heads of up to 64 features");
    auto y = torch::empty_like(x);
    travel<<<dim3(x.size(2), x.size(0)), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), gain.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), x.size(3), base, start, eps);
    return y;
}
"""
ext = load_inline(
    name="travel",
    cpp_sources="torch::Tensor travel_forward(torch::Tensor x, torch::Tensor gain, double base, int64_t start, double eps);",
    cuda_sources=SRC,
    functions=["travel_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        return (
            ext.travel_forward(q.contiguous(), self.q_gain, self.base, self.start, self.eps),
            ext.travel_forward(k.contiguous(), self.k_gain, self.base, self.start, self.eps),
        )
