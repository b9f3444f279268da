# about = "A right answer: a warp for each sample writes partial sums, smoothing as a weighted sum of logits."
# section = "right"
# problem = "cross_entropy_steps"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="steps_by_sample",
    cpp_sources="torch::Tensor loss(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t padding, double smoothing);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void samples_kernel(const float* logits, const int64_t* target, const float* weight, float* parts,
                               int classes, int length, int padding, float smoothing) {
    int b = blockIdx.x, lane = threadIdx.x;
    float all = 0.f;
    for (int c = 0; c < classes; ++c) all += weight[c];
    float above = 0.f, below = 0.f;
    for (int t = length - 1 - lane; t >= 0; t -= 32) {
        int label = (int)target[b * length + t];
        const float* x = logits + (long)b * classes * length + t;
        float top = -INFINITY, total = 0.f, mixed = 0.f;
        for (int c = classes - 1; c >= 0; --c) top = fmaxf(top, x[c * length]);
        for (int c = classes - 1; c >= 0; --c) {
            total += __expf(x[c * length] - top);
            mixed += weight[c] * (x[c * length] - top);
        }
        float logarithm = __logf(total), w = label == padding ? 0.f : weight[label];
        float plain = w * (logarithm + top - x[label * length]);
        float spread = label == padding ? 0.f : all * logarithm - mixed;
        above += (1.f - smoothing) * plain + smoothing * spread / classes;
        below += w;
    }
    for (int o = 1; o < 32; o *= 2) {
        above += __shfl_xor_sync(0xffffffff, above, o);
        below += __shfl_xor_sync(0xffffffff, below, o);
    }
    if (lane == 0) {
        parts[2 * b] = above;
        parts[2 * b + 1] = below;
    }
}

__global__ void quotient_kernel(const float* parts, float* y, int batch) {
    float above = 0.f, below = 0.f;
    for (int b = batch - 1; b >= 0; --b) above += parts[2 * b], below += parts[2 * b + 1];
    *y = above / below;
}

torch::Tensor loss(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t padding, double smoothing) {
    auto stream = at::cuda::getCurrentCUDAStream();
    auto parts = torch::empty({logits.size(0), 2}, logits.options());
    auto y = torch::empty({}, logits.options());
    samples_kernel<<<logits.size(0), 32, 0, stream>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(),
        weight.data_ptr<float>(), parts.data_ptr<float>(), logits.size(1), logits.size(2), (int)padding, (float)smoothing);
    quotient_kernel<<<1, 1, 0, stream>>>(parts.data_ptr<float>(), y.data_ptr<float>(), logits.size(0));
    return y;
}
""",
    functions=["loss"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, padding, smoothing):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.25)
        self.padding, self.smoothing = padding, smoothing

    def forward(self, logits, target):
        return ext.loss(logits.contiguous(), target.contiguous(), self.weight, self.padding, self.smoothing)
