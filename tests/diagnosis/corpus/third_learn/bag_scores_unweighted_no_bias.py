# about = "The weights of the entries are left out, and so is the bias of the items."
# section = "mismatch"
# problem = "bag_item_scores"
# faults = [{causes = ["weight-ignored", "operator-missing", "scale-missing"], says = ["weight|scal|factor|per.sample"]}, {causes = ["bias-missing", "operator-missing"], says = ["bias|offset|item"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

template <int BLOCK>
__global__ void embedding_bag_dot(const int64_t* ids, const int64_t* offsets, const float* table, const float* items,
                                  const int64_t* candidates, float* out, int seen, int shown, int width) {
    __shared__ float partial[BLOCK];
    const int u = blockIdx.y;
    const int64_t start = offsets[u];
    const int64_t stop = u + 1 == gridDim.y ? seen : offsets[u + 1];
    const int64_t item = candidates[u * shown + blockIdx.x];
    float sum = 0.f;
    for (int w = threadIdx.x; w < width; w += BLOCK) {
        float pooled = 0.f;
        for (int64_t e = start; e < stop; ++e) pooled += table[ids[e] * width + w];
        sum += pooled * items[item * width + w];
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[u * shown + blockIdx.x] = partial[0] / sqrtf(fmaxf(stop - start, 1.f));
}

torch::Tensor embedding_bag_dot_cuda(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table, torch::Tensor items,
                                     torch::Tensor candidates) {
    auto out = torch::empty({candidates.size(0), candidates.size(1)}, table.options());
    dim3 grid(candidates.size(1), candidates.size(0));
    embedding_bag_dot<16><<<grid, 16, 0, at::cuda::getCurrentCUDAStream()>>>(
        ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), table.data_ptr<float>(), items.data_ptr<float>(),
        candidates.data_ptr<int64_t>(), out.data_ptr<float>(), ids.size(0), candidates.size(1), table.size(1));
    return out;
}
"""
ext = load_inline(
    name="embedding_bag_dot",
    cpp_sources="torch::Tensor embedding_bag_dot_cuda(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table, torch::Tensor items, torch::Tensor candidates);",
    cuda_sources=source,
    functions=["embedding_bag_dot_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.history = nn.Parameter(torch.randn(items, width))
        self.items = nn.Parameter(torch.randn(items, width) * 0.5)
        self.item_bias = nn.Parameter(torch.randn(items))

    def forward(self, ids, offsets, weights, candidates):
        return ext.embedding_bag_dot_cuda(ids, offsets, self.history, self.items, candidates)
