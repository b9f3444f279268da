# about = "Each tile of 32 samples begins with full light; what earlier tiles took away is forgotten."
# section = "mismatch"
# problem = "transmittance"
# causes = ["scan-restarts", "partial-sums-not-combined", "wrong-initial-state"]
# says = ["tile|carry|restart|block|warp|forget|earlier|32|begin"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <vector>

constexpr int kWarp = 32;

__device__ __forceinline__ float warp_product(float v, int lane) {
#pragma unroll
    for (int o = 1; o < kWarp; o <<= 1) {
        float u = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o) v *= u;
    }
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = kWarp / 2; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void render(const float* __restrict__ density, const float* __restrict__ step,
                       const float* __restrict__ colour, float* __restrict__ pixel, float* __restrict__ weights,
                       int samples) {
    const int ray = blockIdx.x, lane = threadIdx.x;
    float acc[3] = {0.f, 0.f, 0.f};
    for (int s0 = 0; s0 < samples; s0 += kWarp) {
        const int s = s0 + lane;
        const size_t i = (size_t)ray * samples + s;
        const float pass = s < samples ? expf(-density[i] * step[i]) : 1.f;
        const float incl = warp_product(pass, lane);
        float before = __shfl_up_sync(0xffffffffu, incl, 1);
        if (lane == 0) before = 1.f;
        const float w = (1.f - pass) * before;
        if (s < samples) {
            weights[i] = w;
            for (int c = 0; c < 3; ++c) acc[c] += w * colour[3 * i + c];
        }
    }
    for (int c = 0; c < 3; ++c) {
        const float total = warp_sum(acc[c]);
        if (lane == 0) pixel[3 * ray + c] = total;
    }
}

std::vector<torch::Tensor> render_rays(torch::Tensor density, torch::Tensor step, torch::Tensor colour) {
    auto pixel = torch::empty({density.size(0), 3}, density.options());
    auto weights = torch::empty_like(density);
    render<<<density.size(0), kWarp>>>(density.data_ptr<float>(), step.data_ptr<float>(), colour.data_ptr<float>(),
                                       pixel.data_ptr<float>(), weights.data_ptr<float>(), density.size(1));
    return {pixel, weights};
}
"""

ext = load_inline(
    name="render_rays",
    cpp_sources="std::vector<torch::Tensor> render_rays(torch::Tensor density, torch::Tensor step, torch::Tensor colour);",
    cuda_sources=cuda_source,
    functions=["render_rays"],
)


class ModelNew(nn.Module):
    def forward(self, density, step, colour):
        return tuple(ext.render_rays(density.contiguous(), step.contiguous(), colour.contiguous()))
