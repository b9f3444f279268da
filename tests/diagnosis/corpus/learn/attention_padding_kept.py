# about = "The mask is read the other way round: the padding is attended to."
# section = "mismatch"
# problem = "attention_padding"
# causes = ["mask-inverted"]
# says = ["mask|keep|invert|padd"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <cstdint>

// one thread per query, two passes over the keys
__global__ void padded_attention(const float* q, const float* k, const float* v, const uint8_t* mask, float* o,
                                 int total, int heads, int n, int m, int d, float scale) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= total) return;
    int bh = r / n;
    const uint8_t* mk = mask + (bh / heads) * m;
    float hi = -INFINITY;
    for (int j = 0; j < m; ++j) {
        if (mk[j]) continue;
        float s = 0;
        for (int c = 0; c < d; ++c) s += q[r * d + c] * k[(bh * m + j) * d + c];
        hi = fmaxf(hi, s * scale);
    }
    float z = 0, y[64] = {0};
    for (int j = 0; j < m; ++j) {
        if (mk[j]) continue;
        float s = 0;
        for (int c = 0; c < d; ++c) s += q[r * d + c] * k[(bh * m + j) * d + c];
        float e = expf(s * scale - hi);
        z += e;
        for (int c = 0; c < d; ++c) y[c] += e * v[(bh * m + j) * d + c];
    }
    for (int c = 0; c < d; ++c) o[r * d + c] = y[c] / z;
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor mask) {
    auto o = torch::empty_like(q);
    int d = q.size(3), total = q.numel() / d;
    padded_attention<<<(total + 63) / 64, 64>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        reinterpret_cast<const uint8_t*>(mask.data_ptr<bool>()), o.data_ptr<float>(), total, q.size(1), q.size(2), k.size(2), d,
        1.f / sqrtf((float)d));
    return o;
}
"""

kernel = load_inline(
    name="padded_attention",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor mask);",
    cuda_sources=SRC,
    functions=["attend"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v, keep):
        return kernel.attend(q.contiguous(), k.contiguous(), v.contiguous(), keep.contiguous())
