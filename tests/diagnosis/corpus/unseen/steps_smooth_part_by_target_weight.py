# about = "The smoothed part weighs every class with the weight of the target."
# section = "mismatch"
# problem = "cross_entropy_steps"
# causes = ["weight-wrong-place", "weight-ignored", "index-ignored", "wrong-coefficient", "bias-wrong-index", "smoothing-missing"]
# says = ["weight|smooth"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#define THREADS 128

__global__ void ce_steps_kernel(const float* __restrict__ logits, const int64_t* __restrict__ target,
                                const float* __restrict__ weight, float* __restrict__ out,
                                int B, int C, int L, int ignore, float eps) {
    __shared__ float num[THREADS];
    __shared__ float den[THREADS];
    float a = 0.0f, b = 0.0f;
    for (int idx = threadIdx.x; idx < B * L; idx += THREADS) {
        int n = idx / L, l = idx % L;
        int t = (int)target[idx];
        if (t == ignore) continue;
        const float* x = logits + (size_t)n * C * L + l;
        float m = -INFINITY;
        for (int c = 0; c < C; ++c) m = fmaxf(m, x[c * L]);
        float s = 0.0f;
        for (int c = 0; c < C; ++c) s += expf(x[c * L] - m);
        float lse = m + logf(s);
        float w = weight[t];
        float nll = lse - x[t * L];
        float smooth = 0.0f;
        for (int c = 0; c < C; ++c) smooth += lse - x[c * L];
        a += w * ((1.0f - eps) * nll + eps / C * smooth);
        b += w;
    }
    num[threadIdx.x] = a;
    den[threadIdx.x] = b;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) {
            num[threadIdx.x] += num[threadIdx.x + s];
            den[threadIdx.x] += den[threadIdx.x + s];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = num[0] / den[0];
}

torch::Tensor ce_steps(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t ignore, double eps) {
    auto out = torch::zeros({}, logits.options());
    ce_steps_kernel<<<1, THREADS>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                    out.data_ptr<float>(), logits.size(0), logits.size(1), logits.size(2),
                                    (int)ignore, (float)eps);
    return out;
}
"""

cpp_source = "torch::Tensor ce_steps(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t ignore, double eps);"

ce = load_inline(name="ce_steps", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["ce_steps"])


class ModelNew(nn.Module):
    def __init__(self, classes, padding, smoothing):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.25)
        self.padding = padding
        self.smoothing = smoothing

    def forward(self, logits, target):
        return ce.ce_steps(logits.contiguous(), target.contiguous(), self.weight, self.padding, self.smoothing)
