# about = "Padded keys take part in the softmax, and the scores are not divided by the root of the width."
# section = "mismatch"
# problem = "window_padding_attention"
# faults = [{causes = ["mask-ignored", "padding-ignored"], says = ["mask|pad|length"]}, {causes = ["scale-missing", "wrong-divisor", "operator-missing"], says = ["scal|root|sqrt|divi|factor"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <ATen/cuda/CUDAContext.h>

__global__ void band_attention(const float* qkv, const int64_t* lengths, float* out, int B, int T, int H, int D, int radius) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T * H * D) return;
    int d = idx % D;
    int h = (idx / D) % H;
    int t = (idx / (D * H)) % T;
    int b = idx / (D * H * T);
    if (t >= lengths[b]) { out[idx] = 0.0f; return; }
    const float* q = qkv + ((b * T + t) * 3 * H + h) * D;
    float max_score = -1e20f;
    for (int j = max(0, t - radius); j < min(T, t + radius + 1); j++) {
        const float* k = qkv + ((b * T + j) * 3 * H + H + h) * D;
        float s = 0.0f;
        for (int e = 0; e < D; e++) s += q[e] * k[e];
        max_score = max(max_score, s);
    }
    float num = 0.0f, den = 0.0f;
    for (int j = max(0, t - radius); j < min(T, t + radius + 1); j++) {
        const float* k = qkv + ((b * T + j) * 3 * H + H + h) * D;
        float s = 0.0f;
        for (int e = 0; e < D; e++) s += q[e] * k[e];
        float w = expf(s - max_score);
        num += w * qkv[((b * T + j) * 3 * H + 2 * H + h) * D + d];
        den += w;
    }
    out[idx] = num / den;
}

torch::Tensor band_attention_cuda(torch::Tensor qkv, torch::Tensor lengths, int64_t radius) {
    int B = qkv.size(0), T = qkv.size(1), H = qkv.size(3), D = qkv.size(4);
    auto out = torch::empty({B, T, H * D}, qkv.options());
    int n = B * T * H * D;
    band_attention<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(), out.data_ptr<float>(), B, T, H, D, radius);
    return out;
}
"""

band = load_inline(
    name="band_attention",
    cpp_sources="torch::Tensor band_attention_cuda(torch::Tensor qkv, torch::Tensor lengths, int64_t radius);",
    cuda_sources=source,
    functions=["band_attention_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super(ModelNew, self).__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return band.band_attention_cuda(qkv.contiguous(), lengths.contiguous(), self.radius)
