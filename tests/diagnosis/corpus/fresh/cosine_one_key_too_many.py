# about = "The key at the length itself is let in."
# section = "mismatch"
# problem = "attention_cosine"
# causes = ["mask-shifted", "index-off-by-one"]
# says = ["mask|shift|one|length|border|<=|>="]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cosine_attention_forward_cuda",
    cpp_sources="torch::Tensor cosine_attention_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor log_scale);",
    cuda_sources=r"""
// One thread per query, online softmax over the keys.
#define MAX_D 64
__global__ void cosine_attention(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                 const int64_t* __restrict__ lengths, const float* __restrict__ log_scale,
                                 float* __restrict__ out, int B, int H, int M, int N, int D) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= B * H * M) return;
    int h = (id / M) % H, b = id / (M * H);
    const float* qr = q + (size_t)id * D;
    const float* kb = k + (size_t)(b * H + h) * N * D;
    const float* vb = v + (size_t)(b * H + h) * N * D;
    float qq = 0.f;
    for (int d = 0; d < D; ++d) qq += qr[d] * qr[d];
    float q_norm = fmaxf(sqrtf(qq), 1e-12f);
    float temperature = expf(log_scale[h]);
    float acc[MAX_D];
    for (int d = 0; d < D; ++d) acc[d] = 0.f;
    float m = -INFINITY, l = 0.f;
    int valid = (int)lengths[b];
    for (int j = 0; j <= valid && j < N; ++j) {
        float dot = 0.f, kk = 0.f;
        for (int d = 0; d < D; ++d) {
            float kv = kb[j * D + d];
            dot += qr[d] * kv;
            kk += kv * kv;
        }
        float k_norm = fmaxf(sqrtf(kk), 1e-12f);
        float s = dot / (q_norm * k_norm) * temperature;
        float m_new = fmaxf(m, s);
        float rescale = expf(m - m_new);
        float p = expf(s - m_new);
        l = l * rescale + p;
        for (int d = 0; d < D; ++d) acc[d] = acc[d] * rescale + p * vb[j * D + d];
        m = m_new;
    }
    for (int d = 0; d < D; ++d) out[(size_t)id * D + d] = acc[d] / l;
}

torch::Tensor cosine_attention_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor log_scale) {
    int B = q.size(0), H = q.size(1), M = q.size(2), D = q.size(3), N = k.size(2);
    TORCH_CHECK(D <= MAX_D, "head size above 64");
    auto out = torch::empty_like(q);
    int total = B * H * M;
    cosine_attention<<<(total + 63) / 64, 64>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        lengths.data_ptr<int64_t>(), log_scale.data_ptr<float>(), out.data_ptr<float>(), B, H, M, N, D);
    return out;
}
""",
    functions=["cosine_attention_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((heads,), 1.2))

    def forward(self, q, k, v, lengths):
        return ext.cosine_attention_forward(q.contiguous(), k.contiguous(), v.contiguous(), lengths, self.log_scale)
