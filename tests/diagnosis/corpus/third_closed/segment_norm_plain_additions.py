# about = "Threads of many rows add to one sum without an atomic, so that most of what they add is lost."
# section = "run"
# problem = "segment_norm"
# causes = ["scatter-overwrites", "global-race-between-blocks", "not-deterministic", "partial-sums-not-combined"]
# says = ["atomic|race|overwr|order|lost|same place|several|simultan|conflict|collid|one place|last"]
# stage = ["run", "verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void accumulate(const float* x, const int64_t* seg, float* total, float* total_sq, int* count, int rows, int width) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * width) {
        int row = idx / width;
        int col = idx % width;
        int s = (int)seg[row];
        total[s * width + col] += x[idx];
        total_sq[s * width + col] += x[idx] * x[idx];
        if (col == 0) atomicAdd(count + s, 1);
    }
}

__global__ void finish(const float* x, const int64_t* seg, float* total, const float* total_sq, const int* count, float* y,
                       float* mean, float eps, int rows, int width, int segments) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < segments * width) mean[idx] = total[idx] / max(1, count[idx / width]);
    if (idx < rows * width) {
        int s = (int)seg[idx / width];
        int at = s * width + idx % width;
        float m = total[at] / count[s];
        float v = fmaxf(total_sq[at] / count[s] - m * m, 0.0f);
        y[idx] = (x[idx] - m) / sqrtf(v + eps);
    }
}

std::vector<torch::Tensor> seg_norm(torch::Tensor x, torch::Tensor seg, int64_t segments, double eps) {
    int rows = x.size(0), width = x.size(1);
    auto total = torch::zeros({segments, width}, x.options());
    auto total_sq = torch::zeros({segments, width}, x.options());
    auto count = torch::zeros({segments}, x.options().dtype(torch::kInt));
    auto y = torch::empty_like(x);
    auto mean = torch::empty_like(total);
    int blocks = (rows * width + 255) / 256;
    accumulate<<<blocks, 256>>>(x.data_ptr<float>(), seg.data_ptr<int64_t>(), total.data_ptr<float>(), total_sq.data_ptr<float>(),
                                count.data_ptr<int>(), rows, width);
    finish<<<blocks, 256>>>(x.data_ptr<float>(), seg.data_ptr<int64_t>(), total.data_ptr<float>(), total_sq.data_ptr<float>(),
                            count.data_ptr<int>(), y.data_ptr<float>(), mean.data_ptr<float>(), (float)eps, rows, width, segments);
    return {y, mean};
}
"""

seg_norm = load_inline(
    name="seg_norm",
    cpp_sources="std::vector<torch::Tensor> seg_norm(torch::Tensor x, torch::Tensor seg, int64_t segments, double eps);",
    cuda_sources=cuda_src,
    functions=["seg_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments = segments
        self.eps = eps

    def forward(self, x, segment):
        y, mean = seg_norm.seg_norm(x.contiguous(), segment.contiguous(), self.segments, self.eps)
        return y, mean
