# about = "The two shares are those of the softmax over all experts; they are not made to add up to one."
# section = "mismatch"
# problem = "moe_top_two"
# causes = ["operator-missing", "wrong-divisor", "scale-missing", "softmax-wrong-axis", "statistics-over-wrong-axes", "activation-order"]
# says = ["softmax|normal|divi|sum|share|weight|all|expert|scal|factor|missing|order"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

#define MAX_EXPERTS 16

__global__ void route(const float* x, const float* router, int* chosen, float* share, int tokens, int experts, int width) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens) return;
    float p[MAX_EXPERTS];
    float top = -INFINITY, sum = 0.f;
    for (int e = 0; e < experts; ++e) {
        p[e] = 0.f;
        for (int w = 0; w < width; ++w) p[e] += x[t * width + w] * router[e * width + w];
        top = fmaxf(top, p[e]);
    }
    for (int e = 0; e < experts; ++e) sum += p[e] = expf(p[e] - top);
    int first = 0;
    for (int e = 1; e < experts; ++e)
        if (p[e] > p[first]) first = e;
    int second = first == 0 ? 1 : 0;
    for (int e = 0; e < experts; ++e)
        if (e != first && p[e] > p[second]) second = e;
    chosen[2 * t] = first;
    chosen[2 * t + 1] = second;
    share[2 * t] = p[first] / sum;
    share[2 * t + 1] = p[second] / sum;
}

__global__ void experts_kernel(const float* x, const float* up, const float* down, const int* chosen, const float* share, float* y,
                               int width, int hidden) {
    extern __shared__ float inner[];
    int t = blockIdx.x, i = threadIdx.x;
    float acc = i < width ? x[t * width + i] : 0.f;
    for (int k = 0; k < 2; ++k) {
        int e = chosen[2 * t + k];
        if (i < hidden) {
            float s = 0.f;
            for (int w = 0; w < width; ++w) s += x[t * width + w] * up[(e * width + w) * hidden + i];
            inner[i] = 0.5f * s * (1.f + erff(s * 0.70710678f));
        }
        __syncthreads();
        if (i < width) {
            float s = 0.f;
            for (int h = 0; h < hidden; ++h) s += inner[h] * down[(e * hidden + h) * width + i];
            acc += share[2 * t + k] * s;
        }
        __syncthreads();
    }
    if (i < width) y[t * width + i] = acc;
}

torch::Tensor moe(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down) {
    int tokens = x.size(0), width = x.size(1), experts = router.size(0), hidden = up.size(2);
    TORCH_CHECK(experts <= MAX_EXPERTS && width <= 32 && hidden <= 32, "too large for this kernel");
    auto chosen = torch::empty({tokens, 2}, x.options().dtype(torch::kInt32));
    auto share = torch::empty({tokens, 2}, x.options());
    auto y = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    route<<<(tokens + 31) / 32, 32, 0, stream>>>(x.data_ptr<float>(), router.data_ptr<float>(), chosen.data_ptr<int>(),
                                                 share.data_ptr<float>(), tokens, experts, width);
    experts_kernel<<<tokens, 32, hidden * sizeof(float), stream>>>(x.data_ptr<float>(), up.data_ptr<float>(), down.data_ptr<float>(),
                                                                   chosen.data_ptr<int>(), share.data_ptr<float>(), y.data_ptr<float>(),
                                                                   width, hidden);
    return y;
}
"""

moe_ext = load_inline(
    name="moe_two",
    cpp_sources="torch::Tensor moe(torch::Tensor x, torch::Tensor router, torch::Tensor up, torch::Tensor down);",
    cuda_sources=source,
    functions=["moe"],
)


class ModelNew(nn.Module):
    def __init__(self, experts, width, hidden):
        super().__init__()
        self.router = nn.Parameter(torch.randn(experts, width) * 0.5)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.4)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.4)

    def forward(self, x):
        return moe_ext.moe(x.contiguous(), self.router, self.up, self.down)
