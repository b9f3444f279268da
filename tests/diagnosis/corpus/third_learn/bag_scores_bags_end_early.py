# about = "Every bag ends one entry early: the entry before the next offset is not added."
# section = "mismatch"
# problem = "bag_item_scores"
# causes = ["last-element-left-out", "index-off-by-one", "segments-ignored", "scan-off-by-one", "scan-exclusive", "lost-lanes"]
# says = ["last|one too|short|early|element|entry|off by one|border|segment|bag|exclu"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void prepare(const int64_t* offsets, int2* range, float* norm, int users, int seen) {
    int u = blockIdx.x * blockDim.x + threadIdx.x;
    if (u < users) {
        int begin = offsets[u];
        int end = u + 1 < users ? offsets[u + 1] : seen;
        range[u] = make_int2(begin, end - 1);
        norm[u] = rsqrtf((float)max(end - begin, 1));
    }
}

__global__ void scores(const int64_t* ids, const int2* range, const float* norm, const float* weights, const float4* history,
                       const float4* items, const float* item_bias, const int64_t* candidates, float* out, int total, int shown,
                       int quads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int u = i / shown;
    int64_t item = candidates[i];
    float sum = 0.f;
    for (int c = 0; c < quads; ++c) {
        float4 user = make_float4(0.f, 0.f, 0.f, 0.f);
        for (int e = range[u].x; e < range[u].y; ++e) {
            float4 h = history[ids[e] * quads + c];
            float w = weights[e];
            user.x += w * h.x;
            user.y += w * h.y;
            user.z += w * h.z;
            user.w += w * h.w;
        }
        float4 f = items[item * quads + c];
        sum += user.x * f.x + user.y * f.y + user.z * f.z + user.w * f.w;
    }
    out[i] = sum * norm[u] + item_bias[item];
}

torch::Tensor bag_scores(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history,
                         torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates) {
    int users = offsets.size(0), total = candidates.numel(), width = history.size(1);
    TORCH_CHECK(width % 4 == 0, "width has to be a multiple of four");
    auto out = torch::empty(candidates.sizes(), history.options());
    auto range = torch::empty({users, 2}, history.options().dtype(torch::kInt32));
    auto norm = torch::empty({users}, history.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    prepare<<<(users + 31) / 32, 32, 0, stream>>>(offsets.data_ptr<int64_t>(), reinterpret_cast<int2*>(range.data_ptr<int>()),
                                                  norm.data_ptr<float>(), users, ids.size(0));
    scores<<<(total + 31) / 32, 32, 0, stream>>>(
        ids.data_ptr<int64_t>(), reinterpret_cast<const int2*>(range.data_ptr<int>()), norm.data_ptr<float>(),
        weights.data_ptr<float>(), reinterpret_cast<const float4*>(history.data_ptr<float>()),
        reinterpret_cast<const float4*>(items.data_ptr<float>()), item_bias.data_ptr<float>(), candidates.data_ptr<int64_t>(),
        out.data_ptr<float>(), total, candidates.size(1), width / 4);
    return out;
}
"""

module = load_inline(
    name="bag_scores_vec",
    cpp_sources="torch::Tensor bag_scores(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor history, torch::Tensor items, torch::Tensor item_bias, torch::Tensor candidates);",
    cuda_sources=SOURCE,
    functions=["bag_scores"],
)


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.history = nn.Parameter(torch.randn(items, width))
        self.items = nn.Parameter(torch.randn(items, width))
        self.item_bias = nn.Parameter(torch.randn(items))

    def forward(self, ids, offsets, weights, candidates):
        return module.bag_scores(ids, offsets, weights, self.history, self.items, self.item_bias, candidates)
