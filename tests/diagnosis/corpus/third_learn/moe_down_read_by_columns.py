# about = "The second matrix of an expert is read as if its rows were the outputs and its columns the inner features."
# section = "mismatch"
# problem = "moe_top_two"
# causes = ["transposed-operand", "layout-misread", "wrong-axis", "transposed-filter", "coordinates-swapped"]
# says = ["transpos|layout|stride|axis|order|row|column|dim|misread|exchang"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ float gelu(float x) { return x * normcdff(x); }

// A warp for a token: lanes are experts, then inner features, then outputs.
__global__ void experts(const float* __restrict__ x, const float* __restrict__ router, const float* __restrict__ up,
                        const float* __restrict__ down, float* __restrict__ y, int tokens, int E, int W, int H) {
    const int t = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (t >= tokens) return;
    const unsigned all = 0xffffffffu;
    float logit = -INFINITY;
    if (lane < E) {
        logit = 0.f;
        for (int w = 0; w < W; ++w) logit += x[t * W + w] * router[lane * W + w];
    }
    int id[2];
    float value[2];
    float left = logit;
    for (int k = 0; k < 2; ++k) {
        float best = left;
        int at = lane;
        for (int o = 16; o > 0; o >>= 1) {
            const float other = __shfl_xor_sync(all, best, o);
            const int where = __shfl_xor_sync(all, at, o);
            if (other > best || (other == best && where < at)) {
                best = other;
                at = where;
            }
        }
        id[k] = at;
        value[k] = best;
        if (lane == at) left = -INFINITY;
    }
    const float share = 1.f / (1.f + expf(value[1] - value[0]));
    float result = lane < W ? x[t * W + lane] : 0.f;
    for (int k = 0; k < 2; ++k) {
        float inner = 0.f;
        if (lane < H) {
            for (int w = 0; w < W; ++w) inner += x[t * W + w] * up[(id[k] * W + w) * H + lane];
            inner = gelu(inner);
        }
        float outer = 0.f;
        for (int h = 0; h < H; ++h) {
            const float v = __shfl_sync(all, inner, h);
            if (lane < W) outer += v * down[id[k] * H * W + lane * H + h];
        }
        result += (k == 0 ? share : 1.f - share) * outer;
    }
    if (lane < W) y[t * W + lane] = result;
}

torch::Tensor experts_forward(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down) {
    const int tokens = x.size(0);
    auto y = torch::empty_like(x);
    experts<<<(tokens + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), router.data_ptr<float>(), up.data_ptr<float>(), down.data_ptr<float>(), y.data_ptr<float>(), tokens,
        router.size(0), x.size(1), up.size(2));
    return y;
}
"""
ext = load_inline(
    name="experts_warp",
    cpp_sources="torch::Tensor experts_forward(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down);",
    cuda_sources=CUDA,
    functions=["experts_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, experts, width, hidden):
        super().__init__()
        self.router = nn.Parameter(torch.randn(experts, width))
        self.up = nn.Parameter(torch.randn(experts, width, hidden))
        self.down = nn.Parameter(torch.randn(experts, hidden, width))

    def forward(self, x):
        return ext.experts_forward(x.contiguous(), self.router, self.up, self.down)
