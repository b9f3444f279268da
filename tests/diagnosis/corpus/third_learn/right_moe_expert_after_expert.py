# about = "Right: one launch for each expert adds its weighted outputs to the tokens that chose it."
# section = "right"
# problem = "moe_top_two"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// share[token][expert], zero where the token does not go.
__global__ void shares(const float* x, const float* router, float* share, int tokens, int experts, int width) {
    extern __shared__ float logits[];
    const int t = blockIdx.x, e = threadIdx.x;
    float s = 0.f;
    if (e < experts) {
        for (int w = 0; w < width; ++w) s += x[t * width + w] * router[e * width + w];
        logits[e] = s;
    }
    __syncthreads();
    if (e >= experts) return;
    int better = 0;
    float top = -INFINITY, sum = 0.f;
    for (int i = 0; i < experts; ++i) {
        better += logits[i] > s || (logits[i] == s && i < e);
        top = fmaxf(top, logits[i]);
    }
    for (int i = 0; i < experts; ++i) {
        int rank = 0;
        for (int j = 0; j < experts; ++j) rank += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        if (rank < 2) sum += expf(logits[i] - top);
    }
    share[t * experts + e] = better < 2 ? expf(s - top) / sum : 0.f;
}

__global__ void add_expert(const float* x, const float* share, const float* up, const float* down, float* y, int expert, int experts,
                           int width, int hidden) {
    const int t = blockIdx.x;
    const float part = share[t * experts + expert];
    if (part == 0.f) return;
    extern __shared__ float inner[];
    for (int h = threadIdx.x; h < hidden; h += blockDim.x) {
        float s = 0.f;
        for (int w = 0; w < width; ++w) s += x[t * width + w] * up[(expert * width + w) * hidden + h];
        inner[h] = 0.5f * s * erfcf(-s * 0.70710678118f);
    }
    __syncthreads();
    for (int w = threadIdx.x; w < width; w += blockDim.x) {
        float s = 0.f;
        for (int h = 0; h < hidden; ++h) s += inner[h] * down[(expert * hidden + h) * width + w];
        y[t * width + w] += part * s;
    }
}

torch::Tensor mixture(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down) {
    const int tokens = x.size(0), width = x.size(1), experts = router.size(0), hidden = up.size(2);
    auto share = torch::empty({tokens, experts}, x.options());
    auto y = x.clone();
    auto stream = at::cuda::getCurrentCUDAStream();
    shares<<<tokens, 32, experts * sizeof(float), stream>>>(x.data_ptr<float>(), router.data_ptr<float>(), share.data_ptr<float>(), tokens,
                                                            experts, width);
    for (int e = 0; e < experts; ++e)
        add_expert<<<tokens, 16, hidden * sizeof(float), stream>>>(x.data_ptr<float>(), share.data_ptr<float>(), up.data_ptr<float>(),
                                                                   down.data_ptr<float>(), y.data_ptr<float>(), e, experts, width, hidden);
    return y;
}
"""
ext = load_inline(
    name="mixture",
    cpp_sources="torch::Tensor mixture(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down);",
    cuda_sources=SRC,
    functions=["mixture"],
)


class ModelNew(nn.Module):
    def __init__(self, experts, width, hidden):
        super().__init__()
        self.router = nn.Parameter(torch.randn(experts, width) * 0.5)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.4)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.4)

    def forward(self, x):
        return ext.mixture(x.contiguous(), self.router, self.up, self.down)
