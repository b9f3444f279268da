# about = "The causal mask is aligned with the last key; the reference aligns it with the first."
# section = "mismatch"
# problem = "attention_causal_cross"
# causes = ["mask-shifted"]
# says = ["mask|diagonal|causal|align|shift|offset"]
# stage = ["verify"]
# line = "offset"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void causal_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                              float* __restrict__ out, int Lq, int Lk, int D, float scale) {
    extern __shared__ float sc[];
    int qi = blockIdx.x;
    int bh = blockIdx.y;
    int lane = threadIdx.x;
    int offset = Lk - Lq;
    int visible = min(qi + offset + 1, Lk);
    float m = -1e30f;
    for (int j = lane; j < visible; j += 32) {
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += q[(bh * Lq + qi) * D + d] * k[(bh * Lk + j) * D + d];
        sc[j] = s * scale;
        m = fmaxf(m, sc[j]);
    }
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    float l = 0.f;
    for (int j = lane; j < visible; j += 32) {
        sc[j] = expf(sc[j] - m);
        l += sc[j];
    }
    for (int o = 16; o > 0; o /= 2) l += __shfl_xor_sync(0xffffffff, l, o);
    __syncwarp();
    for (int d = lane; d < D; d += 32) {
        float acc = 0.f;
        for (int j = 0; j < visible; ++j) acc += sc[j] * v[(bh * Lk + j) * D + d];
        out[(bh * Lq + qi) * D + d] = acc / l;
    }
}

torch::Tensor causal_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto out = torch::empty_like(q);
    int Lq = q.size(2), Lk = k.size(2), D = q.size(3);
    dim3 grid(Lq, q.size(0) * q.size(1));
    causal_kernel<<<grid, 32, Lk * sizeof(float)>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                                  out.data_ptr<float>(), Lq, Lk, D, 1.0f / sqrtf((float)D));
    return out;
}
"""

causal = load_inline(
    name="causal_forward_ext",
    cpp_sources="torch::Tensor causal_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=cuda_source,
    functions=["causal_forward"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return causal.causal_forward(q.contiguous(), k.contiguous(), v.contiguous())
