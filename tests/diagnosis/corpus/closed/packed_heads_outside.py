# about = "The packed projection is read as heads of q, k and v, not as q, k and v of heads."
# section = "mismatch"
# problem = "attention_packed"
# causes = ["layout-misread", "wrong-axis", "wrong-channel"]
# says = ["layout|order|head|stride|ind|dim"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

packed_src = r"""
__device__ inline int spot(int b, int t, int part, int h, int T, int H, int D) {
    return (((b * T + t) * H + h) * 3 + part) * D;
}

__global__ void packed_attention(const float* qkv, float* out, int T, int H, int D) {
    extern __shared__ float att[];
    int t = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    const float* q = qkv + spot(b, t, 0, h, T, H, D);
    float inv = rsqrtf((float)D);
    if (threadIdx.x < T) {
        const float* k = qkv + spot(b, threadIdx.x, 1, h, T, H, D);
        float dot = 0.f;
        for (int d = 0; d < D; ++d) dot += q[d] * k[d];
        att[threadIdx.x] = dot * inv;
    }
    __syncthreads();
    float mx = att[0];
    for (int j = 1; j < T; ++j) mx = fmaxf(mx, att[j]);
    float den = 0.f;
    for (int j = 0; j < T; ++j) den += expf(att[j] - mx);
    if (threadIdx.x < D) {
        float num = 0.f;
        for (int j = 0; j < T; ++j) num += expf(att[j] - mx) * qkv[spot(b, j, 2, h, T, H, D) + threadIdx.x];
        out[((b * T + t) * H + h) * D + threadIdx.x] = num / den;
    }
}

torch::Tensor packed(torch::Tensor qkv, int64_t heads) {
    int B = qkv.size(0), T = qkv.size(1), D = qkv.size(2) / (3 * heads);
    auto out = torch::empty({B, T, heads * D}, qkv.options());
    packed_attention<<<dim3(T, heads, B), 32, T * sizeof(float)>>>(qkv.data_ptr<float>(), out.data_ptr<float>(), T, heads, D);
    return out;
}
"""

packed = load_inline(
    name="packed_attention",
    cpp_sources="torch::Tensor packed(torch::Tensor qkv, int64_t heads);",
    cuda_sources=packed_src,
    functions=["packed"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        return packed.packed(qkv.contiguous(), self.heads)
