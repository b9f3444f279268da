# about = "Values beyond the ends are not counted at all, where the reference counts them in the outermost bins."
# section = "mismatch"
# problem = "equalise_images"
# causes = ["clamp-missing", "clamp-bounds", "operator-missing"]
# says = ["clamp|bound|beyond|outside|end|range|left out|limit|drop|lost|not counted|fewer"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void histogram_kernel(const float* x, float* counts, float low, float high, int bins, int pixels) {
    const float* image = x + blockIdx.x * pixels;
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        float v = image[i];
        if (v < low || v >= high) continue;
        int bin = (int)((v - low) / (high - low) * bins);
        atomicAdd(&counts[blockIdx.x * bins + bin], 1.0f);
    }
}

__global__ void map_kernel(const float* x, const float* counts, float* y, float low, float high, int bins, int pixels) {
    extern __shared__ float cdf[];
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int b = 0; b < bins; b++) {
            sum += counts[blockIdx.x * bins + b];
            cdf[b] = sum / pixels;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        float v = x[blockIdx.x * pixels + i];
        int bin = (int)floorf((v - low) / (high - low) * bins);
        bin = min(max(bin, 0), bins - 1);
        y[blockIdx.x * pixels + i] = cdf[bin];
    }
}

std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high) {
    int images = x.size(0), pixels = x.numel() / images;
    auto counts = torch::zeros({images, bins}, x.options());
    auto y = torch::empty_like(x);
    histogram_kernel<<<images, 128>>>(x.data_ptr<float>(), counts.data_ptr<float>(), low, high, bins, pixels);
    map_kernel<<<images, 128, bins * sizeof(float)>>>(x.data_ptr<float>(), counts.data_ptr<float>(), y.data_ptr<float>(), low, high, bins, pixels);
    return {y, counts};
}
"""

eq = load_inline(
    name="equalise",
    cpp_sources="std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high);",
    cuda_sources=cuda_source,
    functions=["equalise"],
)


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins = bins
        self.low = low
        self.high = high

    def forward(self, x):
        y, counts = eq.equalise(x.contiguous(), self.bins, self.low, self.high)
        return y, counts
