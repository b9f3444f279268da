# about = "Divides by the variance where its root belongs, and does not add the offset."
# section = "mismatch"
# problem = "cumulative_norm"
# faults = [{causes = ["root-omitted"], says = ["root|sqrt|variance"]}, {causes = ["bias-missing", "affine-ignored", "stale-default-parameter"], says = ["offset|bias|beta|affine|param|shift"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

// first: per-frame sums over channels; second: a running total per sample; third: every element
__global__ void frame_sums(const float* x, float* s, float* q, int batch, int channels, int frames) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * frames) return;
    int b = i / frames, t = i % frames;
    float a = 0, c = 0;
    for (int k = 0; k < channels; k++) {
        float v = x[(b * channels + k) * frames + t];
        a += v;
        c += v * v;
    }
    s[i] = a;
    q[i] = c;
}

__global__ void running_totals(float* s, float* q, int batch, int frames) {
    int i = threadIdx.x;
    if (i >= 2 * batch) return;
    float* p = (i < batch ? s : q) + (i % batch) * frames;
    for (int t = 1; t < frames; t++) p[t] += p[t - 1];
}

__global__ void apply(const float* x, const float* s, const float* q, const float* gain, float* y, int n,
                      int channels, int frames, float eps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int t = i % frames, c = i / frames % channels, b = i / (frames * channels);
    float count = (float)(t + 1) * channels;
    float mean = s[b * frames + t] / count;
    float var = q[b * frames + t] / count - mean * mean;
    y[i] = gain[c] * (x[i] - mean) / (var + eps);
}

torch::Tensor cln(torch::Tensor x, torch::Tensor gain, torch::Tensor offset, double eps) {
    int batch = x.size(0), channels = x.size(1), frames = x.size(2), n = x.numel();
    auto s = torch::empty({batch, frames}, x.options());
    auto q = torch::empty({batch, frames}, x.options());
    auto y = torch::empty_like(x);
    frame_sums<<<(batch * frames + 127) / 128, 128>>>(x.data_ptr<float>(), s.data_ptr<float>(), q.data_ptr<float>(),
                                                      batch, channels, frames);
    running_totals<<<1, 2 * batch>>>(s.data_ptr<float>(), q.data_ptr<float>(), batch, frames);
    apply<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), s.data_ptr<float>(), q.data_ptr<float>(),
                                    gain.data_ptr<float>(), y.data_ptr<float>(), n, channels, frames, (float)eps);
    return y;
}
"""

ext = load_inline(
    name="cln",
    cpp_sources="torch::Tensor cln(torch::Tensor x, torch::Tensor gain, torch::Tensor offset, double eps);",
    cuda_sources=source,
    functions=["cln"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels, 1))
        self.offset = nn.Parameter(torch.zeros(channels, 1))
        self.eps = eps

    def forward(self, x):
        return ext.cln(x.contiguous(), self.gain, self.offset, self.eps)
