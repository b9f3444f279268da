# about = "The means that are returned are sums, and eps is added to the root and not below it."
# section = "mismatch"
# problem = "segment_norm"
# faults = [{causes = ["eps-outside-root", "wrong-eps"], says = ["eps"]}, {causes = ["sum-for-mean", "wrong-divisor", "operator-missing"], says = ["sum|divis|divid|mean|count"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

// a warp for a segment and a column
__global__ void warp_norm(const float* x, const int64_t* segment, float* y, float* mean_out, float eps, int rows, int width) {
    int s = blockIdx.x, c = blockIdx.y, lane = threadIdx.x;
    float sum = 0.f, n = 0.f;
    for (int r = lane; r < rows; r += 32)
        if (segment[r] == s) { sum += x[r * width + c]; n += 1.f; }
    for (int o = 16; o > 0; o /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, o);
        n += __shfl_xor_sync(0xffffffff, n, o);
    }
    n = fmaxf(n, 1.f);
    float m = sum / n, q = 0.f;
    for (int r = lane; r < rows; r += 32)
        if (segment[r] == s) { float d = x[r * width + c] - m; q += d * d; }
    for (int o = 16; o > 0; o /= 2) q += __shfl_xor_sync(0xffffffff, q, o);
    float std = sqrtf(q / n) + eps;
    for (int r = lane; r < rows; r += 32)
        if (segment[r] == s) y[r * width + c] = (x[r * width + c] - m) / std;
    if (lane == 0) mean_out[s * width + c] = sum;
}

std::vector<torch::Tensor> warp_segment_norm(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps) {
    auto y = torch::empty_like(x);
    auto mean = torch::empty({segments, x.size(1)}, x.options());
    dim3 grid(segments, x.size(1));
    warp_norm<<<grid, 32>>>(x.data_ptr<float>(), segment.data_ptr<int64_t>(), y.data_ptr<float>(), mean.data_ptr<float>(), eps, x.size(0), x.size(1));
    return {y, mean};
}
"""

m = load_inline(
    name="warp_segment_norm",
    cpp_sources="std::vector<torch::Tensor> warp_segment_norm(torch::Tensor x, torch::Tensor segment, int64_t segments, double eps);",
    cuda_sources=cuda_source,
    functions=["warp_segment_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments = segments
        self.eps = eps

    def forward(self, x, segment):
        return tuple(m.warp_segment_norm(x.contiguous(), segment.contiguous(), self.segments, self.eps))
