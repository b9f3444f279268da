# about = "The light that gets through already counts the sample itself."
# section = "mismatch"
# problem = "transmittance"
# causes = ["scan-inclusive", "scan-off-by-one", "operator-missing"]
# says = ["inclusive|itself|own|shift|one|current|divi|before"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <vector>

__global__ void composite_kernel(const float* density, const float* step, const float* colour, float* pixel,
                                 float* weights, int rays, int samples) {
    int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= rays) return;
    float light = 1.0f;
    float red = 0.0f, green = 0.0f, blue = 0.0f;
    for (int s = 0; s < samples; s++) {
        int i = ray * samples + s;
        float through = expf(-density[i] * step[i]);
        light *= through;
        float w = (1.0f - through) * light;
        weights[i] = w;
        red += w * colour[3 * i];
        green += w * colour[3 * i + 1];
        blue += w * colour[3 * i + 2];
    }
    pixel[3 * ray] = red;
    pixel[3 * ray + 1] = green;
    pixel[3 * ray + 2] = blue;
}

std::vector<torch::Tensor> composite(torch::Tensor density, torch::Tensor step, torch::Tensor colour) {
    int rays = density.size(0);
    int samples = density.size(1);
    auto pixel = torch::zeros({rays, 3}, density.options());
    auto weights = torch::zeros({rays, samples}, density.options());
    composite_kernel<<<(rays + 31) / 32, 32>>>(density.data_ptr<float>(), step.data_ptr<float>(),
        colour.data_ptr<float>(), pixel.data_ptr<float>(), weights.data_ptr<float>(), rays, samples);
    return {pixel, weights};
}
"""

cpp_source = """
#include <vector>
std::vector<torch::Tensor> composite(torch::Tensor density, torch::Tensor step, torch::Tensor colour);
"""

composite = load_inline(name="composite", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["composite"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, density, step, colour):
        pixel, weights = composite.composite(density.contiguous(), step.contiguous(), colour.contiguous())
        return pixel, weights
