# about = "The bias is left out, and the loop over keys ends one too early."
# section = "mismatch"
# problem = "attention_bias"
# faults = [{causes = ["bias-missing", "operator-missing"], says = ["bias|add"]}, {causes = ["last-element-left-out", "lost-last-block"], says = ["last|key|one|end"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

attn_code = r"""
__global__ void attn(const float* q, const float* k, const float* v, float* o, int n, int m, int d) {
    extern __shared__ float s[];
    const int row = blockIdx.x;
    const int head = row / n;
    const int t = threadIdx.x;
    const float scale = rsqrtf((float)d);
    if (t < m) {
        float dot = 0.f;
        for (int i = 0; i < d; ++i) dot += q[row * d + i] * k[(head * m + t) * d + i];
        s[t] = dot * scale;
    }
    __syncthreads();
    float biggest = s[0];
    for (int j = 1; j < m - 1; ++j) biggest = fmaxf(biggest, s[j]);
    float bottom = 0.f, top = 0.f;
    for (int j = 0; j < m - 1; ++j) {
        float e = __expf(s[j] - biggest);
        bottom += e;
        if (t < d) top += e * v[(head * m + j) * d + t];
    }
    if (t < d) o[row * d + t] = top / bottom;
}

torch::Tensor attn_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto o = torch::empty_like(q);
    int n = q.size(2), m = k.size(2), d = q.size(3);
    TORCH_CHECK(m <= 64 && d <= 64, "one thread per key and column");
    attn<<<q.numel() / d, 64, m * sizeof(float)>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                                   o.data_ptr<float>(), n, m, d);
    return o;
}
"""

attn_ext = load_inline(
    name="attn_ext",
    cpp_sources="torch::Tensor attn_cuda(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=attn_code,
    functions=["attn_cuda"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self, heads, queries, keys):
        super(ModelNew, self).__init__()
        self.bias = nn.Parameter(torch.randn(heads, queries, keys))

    def forward(self, q, k, v):
        return attn_ext.attn_cuda(q.contiguous(), k.contiguous(), v.contiguous())
