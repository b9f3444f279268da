# about = "One lane per feature and one warp per score: the features from the 33rd on never enter the product."
# section = "mismatch"
# problem = "bag_item_scores"
# causes = ["lost-lanes", "lost-last-block", "lost-channels", "hard-coded-size", "partial-sums-not-combined", "last-element-left-out"]
# says = ["32|warp|lane|block|tile|stride|feature|channel|size|partial|not all|last|tail"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <ATen/cuda/CUDAContext.h>

__global__ void bag_score(const long* ids, const long* offsets, const float* weights, const float* history,
                          const float* items, const float* item_bias, const long* candidates, float* out,
                          int users, int seen, int shown, int width) {
    const int pair = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (pair >= users * shown) return;
    const int user = pair / shown;
    const long first = offsets[user];
    const long last = user + 1 < users ? offsets[user + 1] : seen;
    const long item = candidates[pair];

    float feature = 0.0f;
    for (long e = first; e < last; ++e) feature += weights[e] * history[ids[e] * width + lane];
    if (last - first > 1) feature /= sqrtf((float)(last - first));
    float score = feature * items[item * width + lane];
    score += __shfl_down_sync(0xffffffffu, score, 16);
    score += __shfl_down_sync(0xffffffffu, score, 8);
    score += __shfl_down_sync(0xffffffffu, score, 4);
    score += __shfl_down_sync(0xffffffffu, score, 2);
    score += __shfl_down_sync(0xffffffffu, score, 1);
    if (lane == 0) out[pair] = score + item_bias[item];
}

torch::Tensor bag_score_forward(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history,
                                torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates) {
    const int users = candidates.size(0), shown = candidates.size(1);
    auto out = torch::empty({users, shown}, weights.options());
    bag_score<<<(users * shown + 7) / 8, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        (const long*)ids.data_ptr<int64_t>(), (const long*)offsets.data_ptr<int64_t>(), weights.data_ptr<float>(),
        history.data_ptr<float>(), items.data_ptr<float>(), item_bias.data_ptr<float>(),
        (const long*)candidates.data_ptr<int64_t>(), out.data_ptr<float>(), users, ids.numel(), shown, history.size(1));
    return out;
}
"""

bag_ext = load_inline(
    name="bag_score_ext",
    cpp_sources="torch::Tensor bag_score_forward(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history, torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates);",
    cuda_sources=cuda_source,
    functions=["bag_score_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super(ModelNew, self).__init__()
        self.history = nn.Parameter(torch.randn(items, width))
        self.items = nn.Parameter(torch.randn(items, width) * 0.5)
        self.item_bias = nn.Parameter(torch.randn(items))

    def forward(self, ids, offsets, weights, candidates):
        return bag_ext.bag_score_forward(
            ids.contiguous(), offsets.contiguous(), weights.contiguous(), self.history, self.items, self.item_bias,
            candidates.contiguous()
        )
