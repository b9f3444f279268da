"""CUB within a block, and a struct type in shared memory."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = """
#include <torch/extension.h>
#include <cub/cub.cuh>

template <int BLOCK>
__global__ void rows(const float* x, float* sums, float* peaks, int* before, int cols) {
    using Reduce = cub::BlockReduce<float, BLOCK>;
    using Scan = cub::BlockScan<int, BLOCK>;
    __shared__ typename Reduce::TempStorage first, second;
    __shared__ typename Scan::TempStorage scan;
    float s = 0.f, m = -INFINITY;
    int positive = 0;
    for (int i = threadIdx.x; i < cols; i += BLOCK) {
        const float v = x[blockIdx.x * cols + i];
        s += v;
        m = fmaxf(m, v);
        positive += v > 0;
    }
    const float total = Reduce(first).Sum(s);
    const float peak = Reduce(second).Reduce(m, cub::Max());
    int ahead;
    Scan(scan).ExclusiveSum(positive, ahead);
    before[blockIdx.x * BLOCK + threadIdx.x] = ahead;
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
        peaks[blockIdx.x] = peak;
    }
}

std::vector<torch::Tensor> reduce(torch::Tensor x) {
    auto sums = torch::empty({x.size(0)}, x.options());
    auto peaks = torch::empty_like(sums);
    auto before = torch::empty({x.size(0), 64}, x.options().dtype(torch::kInt32));
    rows<64><<<x.size(0), 64>>>(x.data_ptr<float>(), sums.data_ptr<float>(), peaks.data_ptr<float>(),
                                before.data_ptr<int>(), x.size(1));
    return {sums, peaks, before};
}
"""
ext = load_inline(
    "block_reduce", "std::vector<torch::Tensor> reduce(torch::Tensor x);", cuda, functions=["reduce"]
)


def cases():
    x = torch.randn(5, 64, device="cuda")
    sums, peaks, before = ext.reduce(x)
    positive = (x > 0).int()
    return [(sums, x.sum(1)), (peaks, x.amax(1)), (before, positive.cumsum(1).int() - positive)]
