# about = "One histogram counts the pixels of all images; each image has its own in the reference."
# section = "mismatch"
# problem = "equalise_images"
# causes = ["statistics-over-batch", "statistics-over-wrong-axes", "segments-ignored", "keepdim-broadcast"]
# says = ["batch|sample|image|all|together|row|dim 0|first"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

code = """
#include <torch/extension.h>

__global__ void hist_all(const float* x, int* hist, float low, float width, int bins, int total) {
    extern __shared__ int local[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int b = (int)((x[i] - low) / width);
        b = b < 0 ? 0 : b;
        b = b > bins - 1 ? bins - 1 : b;
        atomicAdd(&local[b], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&hist[b], local[b]);
}

__global__ void apply_all(const float* x, const int* hist, float* y, float* counts, float low, float width, int bins, int total, int images) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < images * bins) counts[i] = (float)hist[i % bins];
    if (i < total) {
        int b = (int)((x[i] - low) / width);
        b = b < 0 ? 0 : b;
        b = b > bins - 1 ? bins - 1 : b;
        int below = 0;
        for (int k = 0; k <= b; k++) below += hist[k];
        y[i] = (float)below / (float)total;
    }
}

std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high) {
    int images = x.size(0), total = x.numel();
    auto hist = torch::zeros({bins}, x.options().dtype(torch::kInt32));
    auto counts = torch::empty({images, bins}, x.options());
    auto y = torch::empty_like(x);
    float width = (high - low) / bins;
    hist_all<<<4, 64, bins * sizeof(int)>>>(x.data_ptr<float>(), hist.data_ptr<int>(), low, width, bins, total);
    apply_all<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), hist.data_ptr<int>(), y.data_ptr<float>(), counts.data_ptr<float>(), low, width, bins, total, images);
    return {y, counts};
}
"""

module = load_inline("equalise_shared_histogram", cpp_sources="std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high);",
                     cuda_sources=code, functions=["equalise"])


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins = bins
        self.low = low
        self.high = high

    def forward(self, x):
        out = module.equalise(x.contiguous(), self.bins, self.low, self.high)
        return out[0], out[1]
