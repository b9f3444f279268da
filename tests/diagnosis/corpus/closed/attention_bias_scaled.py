# about = "The bias is added before the scores are scaled, so it is scaled too."
# section = "mismatch"
# problem = "attention_bias"
# causes = ["activation-order", "scale-doubled", "weight-wrong-place"]
# says = ["bias|scal|order|add"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
__global__ void biased_attention(const float* q, const float* k, const float* v, const float* bias, float* o,
                                 int heads, int n, int m, int d, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int bh = blockIdx.y;
    if (i >= n) return;
    const float* b = bias + ((bh % heads) * n + i) * m;
    q += (bh * n + i) * d;
    k += bh * m * d;
    v += bh * m * d;
    o += (bh * n + i) * d;
    float top = -INFINITY;
    for (int j = 0; j < m; ++j) {
        float s = b[j];
        for (int c = 0; c < d; ++c) s = fmaf(q[c], k[j * d + c], s);
        top = fmaxf(top, s * scale);
    }
    float sum = 0.f, acc[32];
    for (int c = 0; c < d; ++c) acc[c] = 0.f;
    for (int j = 0; j < m; ++j) {
        float s = b[j];
        for (int c = 0; c < d; ++c) s = fmaf(q[c], k[j * d + c], s);
        float p = expf(s * scale - top);
        sum += p;
        for (int c = 0; c < d; ++c) acc[c] += p * v[j * d + c];
    }
    for (int c = 0; c < d; ++c) o[c] = acc[c] / sum;
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias) {
    TORCH_CHECK(q.size(3) <= 32, "head size up to 32");
    auto o = torch::empty_like(q);
    int heads = q.size(1), n = q.size(2), d = q.size(3), m = k.size(2);
    biased_attention<<<dim3((n + 31) / 32, q.size(0) * heads), 32>>>(q.data_ptr<float>(), k.data_ptr<float>(),
        v.data_ptr<float>(), bias.data_ptr<float>(), o.data_ptr<float>(), heads, n, m, d, 1.f / sqrtf(float(d)));
    return o;
}
"""

ext = load_inline(
    name="biased_attention",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias);",
    cuda_sources=cuda_source,
    functions=["attend"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, queries, keys):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, queries, keys))

    def forward(self, q, k, v):
        return ext.attend(q.contiguous(), k.contiguous(), v.contiguous(), self.bias)
