# about = "A run is followed back over the start of its row into the row before."
# section = "mismatch"
# problem = "run_lengths"
# causes = ["scan-not-reset", "segments-ignored", "wrong-initial-state"]
# says = ["row|reset|cross|carr|border|over into|next|previous|segment|start"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void run_length_kernel(const float* x, float* y, int* length, float threshold, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    bool high = x[i] > threshold;
    int n = 1;
    while (i - n >= 0 && (x[i - n] > threshold) == high) n++;
    length[i] = n;
    y[i] = x[i] * rsqrtf((float)n);
}

__global__ void longest_kernel(const int* length, int64_t* longest, int rows, int steps) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int m = 0;
    for (int t = 0; t < steps; t++) m = max(m, length[r * steps + t]);
    longest[r] = m;
}

std::vector<torch::Tensor> run_lengths(torch::Tensor x, double threshold) {
    int rows = x.size(0), steps = x.size(1), total = rows * steps;
    auto y = torch::empty_like(x);
    auto length = torch::empty({rows, steps}, x.options().dtype(torch::kInt32));
    auto longest = torch::empty({rows}, x.options().dtype(torch::kInt64));
    run_length_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), length.data_ptr<int>(), (float)threshold, total);
    longest_kernel<<<1, 32>>>(length.data_ptr<int>(), longest.data_ptr<int64_t>(), rows, steps);
    return {y, longest};
}
"""

runs = load_inline(
    name="run_lengths",
    cpp_sources="std::vector<torch::Tensor> run_lengths(torch::Tensor x, double threshold);",
    cuda_sources=cuda_source,
    functions=["run_lengths"],
)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        y, longest = runs.run_lengths(x.contiguous(), self.threshold)
        return y, longest
