# about = "The counters in shared memory are added to before anything set them to zero."
# section = "run"
# problem = "equalise_images"
# causes = ["shared-uninitialised-read", "wrong-initial-state", "reduction-start-value", "base-ignored", "not-deterministic"]
# says = ["uninit|initiali|zero|shared|before any|never written|clear|set|wrote"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#define MAX_BINS 64

__global__ void equalise_kernel(const float* x, float* y, float* counts, float low, float high, int bins, int pixels) {
    __shared__ unsigned int hist[MAX_BINS];
    __shared__ float cdf[MAX_BINS];
    const int image = blockIdx.x;
    const int tid = threadIdx.x;

    for (int i = tid; i < pixels; i += blockDim.x) {
        float v = (x[image * pixels + i] - low) / (high - low) * bins;
        int bin = min(max((int)floorf(v), 0), bins - 1);
        atomicAdd(&hist[bin], 1u);
    }
    __syncthreads();
    if (tid == 0) {
        unsigned int running = 0;
        for (int b = 0; b < bins; ++b) {
            running += hist[b];
            cdf[b] = (float)running / (float)pixels;
        }
    }
    __syncthreads();
    if (tid < bins) counts[image * bins + tid] = (float)hist[tid];
    for (int i = tid; i < pixels; i += blockDim.x) {
        float v = (x[image * pixels + i] - low) / (high - low) * bins;
        int bin = min(max((int)floorf(v), 0), bins - 1);
        y[image * pixels + i] = cdf[bin];
    }
}

std::vector<torch::Tensor> equalise_cuda(torch::Tensor x, int64_t bins, double low, double high) {
    auto y = torch::empty_like(x);
    auto counts = torch::empty({x.size(0), bins}, x.options());
    equalise_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), counts.data_ptr<float>(), (float)low, (float)high,
                                        (int)bins, (int)(x.numel() / x.size(0)));
    return {y, counts};
}
"""

equalise = load_inline(
    name="equalise_one_kernel",
    cpp_sources="std::vector<torch::Tensor> equalise_cuda(torch::Tensor x, int64_t bins, double low, double high);",
    cuda_sources=cuda_source,
    functions=["equalise_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins = bins
        self.low = low
        self.high = high

    def forward(self, x):
        y, counts = equalise.equalise_cuda(x.contiguous(), self.bins, self.low, self.high)
        return y, counts
