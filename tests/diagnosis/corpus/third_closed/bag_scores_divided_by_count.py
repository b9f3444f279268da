# about = "The sum of a bag is divided by the number of its entries, not by the root of that number."
# section = "mismatch"
# problem = "bag_item_scores"
# causes = ["root-omitted", "wrong-divisor", "mean-for-sum", "scale-doubled"]
# says = ["root|sqrt|divi|count|mean|scal|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void pool_users(const int64_t* __restrict__ ids, const int64_t* __restrict__ offsets,
                           const float* __restrict__ weights, const float* __restrict__ table, float* __restrict__ user,
                           int users, int seen, int width) {
    int u = blockIdx.x;
    int begin = (int)offsets[u];
    int end = u + 1 < users ? (int)offsets[u + 1] : seen;
    float norm = 1.0f / fmaxf((float)(end - begin), 1.0f);
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float acc = 0.0f;
        for (int e = begin; e < end; ++e) acc += weights[e] * table[ids[e] * width + c];
        user[u * width + c] = acc * norm;
    }
}

__global__ void score_items(const float* __restrict__ user, const float* __restrict__ items, const float* __restrict__ item_bias,
                            const int64_t* __restrict__ candidates, float* __restrict__ out, int shown, int width) {
    int u = blockIdx.y, c = blockIdx.x, lane = threadIdx.x;
    int64_t item = candidates[u * shown + c];
    float acc = 0.0f;
    for (int w = lane; w < width; w += 32) acc += user[u * width + w] * items[item * width + w];
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_down_sync(0xffffffff, acc, o);
    if (lane == 0) out[u * shown + c] = acc + item_bias[item];
}

torch::Tensor score(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor table,
                    torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates) {
    int users = offsets.size(0), seen = ids.size(0), width = table.size(1), shown = candidates.size(1);
    auto user = torch::empty({users, width}, table.options());
    auto out = torch::empty({users, shown}, table.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    pool_users<<<users, 64, 0, stream>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), weights.data_ptr<float>(),
                                         table.data_ptr<float>(), user.data_ptr<float>(), users, seen, width);
    score_items<<<dim3(shown, users), 32, 0, stream>>>(user.data_ptr<float>(), items.data_ptr<float>(),
                                                       item_bias.data_ptr<float>(), candidates.data_ptr<int64_t>(),
                                                       out.data_ptr<float>(), shown, width);
    return out;
}
"""

cpp = """
torch::Tensor score(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor table,
                    torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates);
"""

scorer = load_inline(name="user_scorer", cpp_sources=cpp, cuda_sources=source, functions=["score"])


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.history = nn.Parameter(torch.randn(items, width))
        self.items = nn.Parameter(torch.randn(items, width) * 0.5)
        self.item_bias = nn.Parameter(torch.randn(items))

    def forward(self, ids, offsets, weights, candidates):
        return scorer.score(ids, offsets, weights, self.history, self.items, self.item_bias, candidates.contiguous())
