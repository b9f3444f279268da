# about = "The bias is read at the position in the list of candidates, not at the item's number."
# section = "mismatch"
# problem = "bag_item_scores"
# causes = ["bias-wrong-index", "index-ignored", "affine-per-group", "index-off-by-one", "layout-misread", "keepdim-broadcast"]
# says = ["bias|index|gather|item|position|element"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>
#define FEATURES 64

// One block per user: pool into shared memory, then every warp scores candidates.
__global__ void user_kernel(const int64_t* ids, const int64_t* offsets, const float* weights, const float* history,
                            const float* items, const float* bias, const int64_t* candidates, float* out,
                            int n_users, int n_ids, int width, int shown) {
    __shared__ float pooled[FEATURES];
    const int u = blockIdx.x;
    const int64_t lo = offsets[u], hi = u == n_users - 1 ? n_ids : offsets[u + 1];
    const int count = hi > lo ? (int)(hi - lo) : 1;
    if (threadIdx.x < width) {
        float sum = 0.f;
        for (int64_t e = lo; e < hi; ++e) sum = fmaf(weights[e], history[ids[e] * width + threadIdx.x], sum);
        pooled[threadIdx.x] = sum * rsqrtf((float)count);
    }
    __syncthreads();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    for (int c = warp; c < shown; c += blockDim.x >> 5) {
        const float* row = items + candidates[u * shown + c] * width;
        float dot = 0.f;
        for (int w = lane; w < width; w += 32) dot = fmaf(pooled[w], row[w], dot);
        #pragma unroll
        for (int o = 16; o; o >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, o);
        if (lane == 0) out[u * shown + c] = dot + bias[c];
    }
}

torch::Tensor run(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history,
                  torch::Tensor items, torch::Tensor bias, torch::Tensor candidates) {
    TORCH_CHECK(history.size(1) <= FEATURES, "at most 64 features");
    auto out = torch::empty(candidates.sizes(), history.options());
    user_kernel<<<offsets.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), weights.data_ptr<float>(), history.data_ptr<float>(),
        items.data_ptr<float>(), bias.data_ptr<float>(), candidates.data_ptr<int64_t>(), out.data_ptr<float>(),
        offsets.size(0), ids.size(0), history.size(1), candidates.size(1));
    return out;
}
"""
ops = load_inline(
    name="bag_scores_fused",
    cpp_sources="torch::Tensor run(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history, "
    "torch::Tensor items, torch::Tensor bias, torch::Tensor candidates);",
    cuda_sources=SRC,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.history = nn.Parameter(torch.zeros(items, width))
        self.items = nn.Parameter(torch.zeros(items, width))
        self.item_bias = nn.Parameter(torch.zeros(items))

    def forward(self, ids, offsets, weights, candidates):
        return ops.run(ids, offsets, weights, self.history, self.items, self.item_bias, candidates)
