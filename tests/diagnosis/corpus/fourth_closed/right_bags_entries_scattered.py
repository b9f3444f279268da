# about = "Right: entries are scattered to their bags, a lane per class goes over the bags for the loss."
# section = "right"
# problem = "bag_label_scores"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <tuple>

// the bag of an entry is the last whose offset is not beyond it
__global__ void fill_bags(const int64_t* ids, const int64_t* offsets, const float* share, const float* words, float* sums,
                          int bags, int entries, int width) {
    const int total = entries * width;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int e = i / width, d = i % width;
        int bag = bags - 1;
        while (offsets[bag] > e) --bag;
        if (ids[e] != 0) atomicAdd(&sums[bag * width + d], share[e] * words[ids[e] * width + d]);
    }
}

__device__ float length(const float* v, int n) {
    float s = 0.f;
    for (int i = 0; i < n; ++i) s = fmaf(v[i], v[i], s);
    return fmaxf(sqrtf(s), 1e-12f);
}

__global__ void cosine(const float* sums, const float* labels, float* scores, int width, float scale) {
    const float* bag = sums + blockIdx.x * width;
    const float* label = labels + threadIdx.x * width;
    float dot = 0.f;
    for (int i = 0; i < width; ++i) dot = fmaf(bag[i], label[i], dot);
    scores[blockIdx.x * blockDim.x + threadIdx.x] = scale * (dot / length(bag, width) / length(label, width));
}

// lanes are classes; the warp goes from bag to bag and keeps both sums in registers
__global__ void entropy(const float* scores, const int64_t* target, const float* importance, float* loss, int bags, int n, float mix) {
    const int lane = threadIdx.x;
    const bool on = lane < n;
    const float w = on ? importance[lane] : 0.f;
    float top = 0.f, bottom = 0.f;
    for (int b = 0; b < bags; ++b) {
        const int t = (int)target[b];
        if (t < 0) continue;
        const float z = on ? scores[b * n + lane] : -1e30f;
        float m = z;
        for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
        float s = on ? expf(z - m) : 0.f;
        for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
        const float minus_log = m + logf(s) - z;
        const float q = (lane == t ? 1.f - mix : 0.f) + mix / n;
        if (on) top += q * w * minus_log;
        if (lane == t) bottom += w;
    }
    for (int o = 16; o; o /= 2) {
        top += __shfl_xor_sync(~0u, top, o);
        bottom += __shfl_xor_sync(~0u, bottom, o);
    }
    if (lane == 0) *loss = top / bottom;
}

std::tuple<torch::Tensor, torch::Tensor> score_bags(torch::Tensor ids, torch::Tensor offsets, torch::Tensor share,
                                                    torch::Tensor target, torch::Tensor importance, torch::Tensor words,
                                                    torch::Tensor labels, double scale, double mix) {
    const int bags = offsets.size(0), width = words.size(1), n = labels.size(0);
    auto sums = torch::zeros({bags, width}, words.options());
    auto scores = torch::empty({bags, n}, words.options()), loss = torch::empty({}, words.options());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    fill_bags<<<5, 96, 0, stream>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), share.data_ptr<float>(),
                                    words.data_ptr<float>(), sums.data_ptr<float>(), bags, ids.size(0), width);
    cosine<<<bags, n, 0, stream>>>(sums.data_ptr<float>(), labels.data_ptr<float>(), scores.data_ptr<float>(), width, scale);
    entropy<<<1, 32, 0, stream>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(), importance.data_ptr<float>(),
                                  loss.data_ptr<float>(), bags, n, mix);
    return {scores, loss};
}
"""
CPP = """
#include <tuple>
std::tuple<torch::Tensor, torch::Tensor> score_bags(torch::Tensor ids, torch::Tensor offsets, torch::Tensor share,
                                                    torch::Tensor target, torch::Tensor importance, torch::Tensor words,
                                                    torch::Tensor labels, double scale, double mix);
"""
bag_ops = load_inline(name="score_bags", cpp_sources=CPP, cuda_sources=SOURCE, functions=["score_bags"])


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width, labels, scale, smoothing):
        super().__init__()
        self.words = nn.Parameter(torch.randn(vocabulary, width))
        self.labels = nn.Parameter(torch.randn(labels, width))
        self.scale = scale
        self.smoothing = smoothing

    def forward(self, ids, offsets, share, target, importance):
        scores, loss = bag_ops.score_bags(ids.contiguous(), offsets.contiguous(), share.contiguous(), target.contiguous(),
                          importance.contiguous(), self.words, self.labels, self.scale, self.smoothing)
        return scores, loss
