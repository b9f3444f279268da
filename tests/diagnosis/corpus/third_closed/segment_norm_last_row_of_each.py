# about = "The sums of a segment end one row before its last; the counts are right."
# section = "mismatch"
# problem = "segment_norm"
# causes = ["last-element-left-out", "lost-lanes", "index-off-by-one", "scan-exclusive"]
# says = ["last|end|one too|one row|element|fewer|left out|missing|short|off by one|not summed|not in the"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

// first[s] is the first row of segment s, first[segments] the number of rows
__global__ void find_borders(const int64_t* segment, int* first, int rows, int segments) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r > rows) return;
    int before = r == 0 ? -1 : (int)segment[r - 1];
    int here = r == rows ? segments : (int)segment[r];
    for (int s = before + 1; s <= here; ++s) first[s] = r;
}

__global__ void normalise(const float* x, const int* first, float* y, float* means, float eps, int width) {
    const int s = blockIdx.x, c = threadIdx.x;
    if (c >= width) return;
    const int from = first[s], to = first[s + 1];
    const float n = fmaxf(1.f, (float)(to - from));
    float sum = 0.f;
    for (int r = from; r < to - 1; ++r) sum += x[r * width + c];
    const float mean = sum / n;
    float sq = 0.f;
    for (int r = from; r < to - 1; ++r) {
        const float d = x[r * width + c] - mean;
        sq += d * d;
    }
    const float scale = 1.f / sqrtf(sq / n + eps);
    for (int r = from; r < to; ++r) y[r * width + c] = (x[r * width + c] - mean) * scale;
    means[s * width + c] = mean;
}

std::vector<torch::Tensor> norm_by_borders(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps) {
    const int rows = x.size(0), width = x.size(1);
    auto first = torch::empty({segments + 1}, segment.options().dtype(torch::kInt32));
    auto y = torch::empty_like(x);
    auto means = torch::empty({segments, width}, x.options());
    find_borders<<<(rows + 1 + 63) / 64, 64>>>(segment.data_ptr<int64_t>(), first.data_ptr<int>(), rows, segments);
    normalise<<<segments, (width + 31) / 32 * 32>>>(x.data_ptr<float>(), first.data_ptr<int>(), y.data_ptr<float>(),
                                                    means.data_ptr<float>(), (float)eps, width);
    return {y, means};
}
"""

op = load_inline(
    name="norm_by_borders",
    cpp_sources="std::vector<torch::Tensor> norm_by_borders(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps);",
    cuda_sources=source,
    functions=["norm_by_borders"],
)


class ModelNew(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments = segments
        self.eps = eps

    def forward(self, x, segment):
        y, means = op.norm_by_borders(x.contiguous(), segment, self.segments, self.eps)
        return y, means
