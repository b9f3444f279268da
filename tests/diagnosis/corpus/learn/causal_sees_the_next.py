# about = "Every query also sees the key after itself."
# section = "mismatch"
# problem = "attention_causal"
# causes = ["mask-shifted"]
# says = ["mask|diagonal|causal|future|next|one"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

causal_src = r"""
__global__ void causal_attention(const float* q, const float* k, const float* v, float* out,
                                 int total, int L, int D, float scale) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int row = idx % L;
    const float* qr = q + idx * D;
    const float* kb = k + (idx / L) * L * D;
    const float* vb = v + (idx / L) * L * D;
    int last = min(row + 2, L);

    float mx = -1e38f;
    for (int j = 0; j < last; j++) {
        float dot = 0.0f;
        for (int d = 0; d < D; d++) dot += qr[d] * kb[j * D + d];
        mx = fmaxf(mx, dot * scale);
    }
    float denom = 0.0f;
    float* dst = out + idx * D;
    for (int d = 0; d < D; d++) dst[d] = 0.0f;
    for (int j = 0; j < last; j++) {
        float dot = 0.0f;
        for (int d = 0; d < D; d++) dot += qr[d] * kb[j * D + d];
        float p = expf(dot * scale - mx);
        denom += p;
        for (int d = 0; d < D; d++) dst[d] += p * vb[j * D + d];
    }
    for (int d = 0; d < D; d++) dst[d] /= denom;
}

torch::Tensor causal_attention_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto out = torch::empty_like(q);
    int L = q.size(2), D = q.size(3);
    int total = q.size(0) * q.size(1) * L;
    int threads = 64;
    causal_attention<<<(total + threads - 1) / threads, threads>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(),
        total, L, D, 1.0f / sqrtf((float)D));
    return out;
}
"""

mod = load_inline(
    name="causal_attention",
    cpp_sources="torch::Tensor causal_attention_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=causal_src,
    functions=["causal_attention_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, q, k, v):
        return mod.causal_attention_cuda(q.contiguous(), k.contiguous(), v.contiguous())
