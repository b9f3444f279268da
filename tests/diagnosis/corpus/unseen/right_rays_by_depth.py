# about = "The light is the exponential of an optical depth that is summed, in two kernels."
# section = "right"
# problem = "transmittance"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void weigh(const float* density, const float* step, float* weights, int rays, int samples) {
    int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= rays) return;
    double depth = 0.0;
    float light = 1.f;
    for (int s = 0; s < samples; ++s) {
        int i = ray * samples + s;
        depth += (double)density[i] * step[i];
        float next = (float)exp(-depth);
        weights[i] = light - next;
        light = next;
    }
}

__global__ void mix(const float* weights, const float* colour, float* pixel, int samples) {
    __shared__ float part[96];
    int ray = blockIdx.x, c = threadIdx.x % 3, first = threadIdx.x / 3;
    float sum = 0.f;
    for (int s = first; s < samples; s += 32)
        sum += weights[ray * samples + s] * colour[(ray * samples + s) * 3 + c];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 16; half > 0; half /= 2) {
        if (first < half) part[threadIdx.x] += part[threadIdx.x + 3 * half];
        __syncthreads();
    }
    if (first == 0) pixel[ray * 3 + c] = part[c];
}

std::vector<torch::Tensor> rays_forward(torch::Tensor density, torch::Tensor step, torch::Tensor colour) {
    int rays = density.size(0), samples = density.size(1);
    auto weights = torch::empty_like(density);
    auto pixel = torch::empty({rays, 3}, density.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    weigh<<<(rays + 31) / 32, 32, 0, stream>>>(density.data_ptr<float>(), step.data_ptr<float>(),
                                               weights.data_ptr<float>(), rays, samples);
    mix<<<rays, 96, 0, stream>>>(weights.data_ptr<float>(), colour.data_ptr<float>(), pixel.data_ptr<float>(), samples);
    return {pixel, weights};
}
"""

ext = load_inline(
    name="rays_forward",
    cpp_sources="std::vector<torch::Tensor> rays_forward(torch::Tensor density, torch::Tensor step, torch::Tensor colour);",
    cuda_sources=cuda_source,
    functions=["rays_forward"],
)


class ModelNew(nn.Module):
    def forward(self, density, step, colour):
        pixel, weights = ext.rays_forward(density.contiguous(), step.contiguous(), colour.contiguous())
        return pixel, weights
