# about = "The smoothed part of the loss leaves out the weights of the classes."
# section = "mismatch"
# problem = "bag_label_scores"
# causes = ["weight-ignored", "smoothing-missing", "weight-wrong-place", "scale-missing"]
# says = ["weight|importance|smooth|class|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// one warp per bag: sum the weighted rows, normalise, score against every label
__global__ void score_kernel(const int64_t* ids, const int64_t* offsets, const float* share, const float* words,
                             const float* labels, float* scores, int bags, int entries, int width, int num_labels, float scale) {
    extern __shared__ float bag[];
    const int b = blockIdx.x;
    const int lane = threadIdx.x;
    const int begin = (int)offsets[b];
    const int end = b + 1 < bags ? (int)offsets[b + 1] : entries;
    float sq = 0.0f;
    for (int d = lane; d < width; d += 32) {
        float sum = 0.0f;
        for (int i = begin; i < end; ++i) {
            const int64_t id = ids[i];
            if (id == 0) continue;   // padding
            sum += share[i] * words[id * width + d];
        }
        bag[d] = sum;
        sq += sum * sum;
    }
    for (int o = 16; o > 0; o >>= 1) sq += __shfl_xor_sync(0xffffffff, sq, o);
    const float inv = 1.0f / fmaxf(sqrtf(sq), 1e-12f);
    __syncwarp();
    for (int l = lane; l < num_labels; l += 32) {
        float dot = 0.0f, ll = 0.0f;
        for (int d = 0; d < width; ++d) {
            const float w = labels[l * width + d];
            dot += bag[d] * w;
            ll += w * w;
        }
        scores[b * num_labels + l] = scale * dot * inv / fmaxf(sqrtf(ll), 1e-12f);
    }
}

// a single block, one thread per bag
__global__ void loss_kernel(const float* scores, const int64_t* target, const float* importance, float* loss, int bags,
                            int num_labels, float smoothing) {
    __shared__ float s_loss[64];
    __shared__ float s_weight[64];
    const int b = threadIdx.x;
    float l = 0.0f, w = 0.0f;
    if (b < bags && target[b] >= 0) {
        const float* row = scores + b * num_labels;
        float m = row[0];
        for (int c = 1; c < num_labels; ++c) m = fmaxf(m, row[c]);
        float s = 0.0f;
        for (int c = 0; c < num_labels; ++c) s += expf(row[c] - m);
        const float lse = m + logf(s);
        const int t = (int)target[b];
        w = importance[t];
        float smooth = 0.0f;
        for (int c = 0; c < num_labels; ++c) smooth += lse - row[c];
        l = (1.0f - smoothing) * w * (lse - row[t]) + smoothing / num_labels * smooth;
    }
    s_loss[b] = l;
    s_weight[b] = w;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (b < s) {
            s_loss[b] += s_loss[b + s];
            s_weight[b] += s_weight[b + s];
        }
        __syncthreads();
    }
    if (b == 0) loss[0] = s_loss[0] / s_weight[0];
}

std::vector<torch::Tensor> bag_scores(torch::Tensor ids, torch::Tensor offsets, torch::Tensor share, torch::Tensor target,
                                      torch::Tensor importance, torch::Tensor words, torch::Tensor labels, double scale,
                                      double smoothing) {
    const int bags = offsets.size(0), entries = ids.size(0), width = words.size(1), num_labels = labels.size(0);
    TORCH_CHECK(bags <= 64);
    auto scores = torch::empty({bags, num_labels}, words.options());
    auto loss = torch::empty({}, words.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    score_kernel<<<bags, 32, width * sizeof(float), stream>>>(
        ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), share.data_ptr<float>(), words.data_ptr<float>(),
        labels.data_ptr<float>(), scores.data_ptr<float>(), bags, entries, width, num_labels, (float)scale);
    loss_kernel<<<1, 64, 0, stream>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(), importance.data_ptr<float>(),
                                      loss.data_ptr<float>(), bags, num_labels, (float)smoothing);
    return {scores, loss};
}
"""

cpp_src = """
#include <vector>
std::vector<torch::Tensor> bag_scores(torch::Tensor ids, torch::Tensor offsets, torch::Tensor share, torch::Tensor target,
                                      torch::Tensor importance, torch::Tensor words, torch::Tensor labels, double scale,
                                      double smoothing);
"""

bagger = load_inline(name="bag_scores", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["bag_scores"])


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width, labels, scale, smoothing):
        super().__init__()
        self.words = nn.Parameter(torch.randn(vocabulary, width))
        self.labels = nn.Parameter(torch.randn(labels, width))
        self.scale = scale
        self.smoothing = smoothing

    def forward(self, ids, offsets, share, target, importance):
        scores, loss = bagger.bag_scores(ids.contiguous(), offsets.contiguous(), share.contiguous(), target.contiguous(),
                          importance.contiguous(), self.words, self.labels, self.scale, self.smoothing)
        return scores, loss
