# about = "Query heads are dealt to the shared heads in turn, not in runs."
# section = "mismatch"
# problem = "attention_grouped"
# causes = ["wrong-channel", "groups-ignored", "layout-misread", "index-ignored", "wrong-axis"]
# says = ["head|group|channel|repeat|ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

gqa_cuda = r"""
__global__ void gqa_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                           float* __restrict__ out, int hq, int hkv, int lq, int lk, int dim) {
    extern __shared__ float p[];
    const int row = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    const int kvh = h % hkv;
    const float* qr = q + ((b * hq + h) * lq + row) * dim;
    const float* kb = k + (b * hkv + kvh) * lk * dim;
    const float* vb = v + (b * hkv + kvh) * lk * dim;
    const float scale = rsqrtf(static_cast<float>(dim));
    float mx = -INFINITY;
    for (int j = threadIdx.x; j < lk; j += warpSize) {
        float s = 0.0f;
        #pragma unroll 4
        for (int d = 0; d < dim; ++d) s = fmaf(qr[d], kb[j * dim + d], s);
        p[j] = s * scale;
        mx = fmaxf(mx, p[j]);
    }
    #pragma unroll
    for (int mask = 16; mask; mask >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, mask));
    float sum = 0.0f;
    for (int j = threadIdx.x; j < lk; j += warpSize) sum += (p[j] = expf(p[j] - mx));
    #pragma unroll
    for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    __syncwarp();
    for (int d = threadIdx.x; d < dim; d += warpSize) {
        float acc = 0.0f;
        for (int j = 0; j < lk; ++j) acc = fmaf(p[j], vb[j * dim + d], acc);
        out[((b * hq + h) * lq + row) * dim + d] = acc / sum;
    }
}

torch::Tensor gqa(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto out = torch::empty_like(q);
    const int lk = k.size(2);
    gqa_kernel<<<dim3(q.size(2), q.size(1), q.size(0)), 32, lk * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(),
        q.size(1), k.size(1), q.size(2), lk, q.size(3));
    return out;
}
"""

gqa = load_inline(name="gqa", cpp_sources="torch::Tensor gqa(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
                  cuda_sources=gqa_cuda, functions=["gqa"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def forward(self, q, k, v):
        return gqa.gqa(q.contiguous(), k.contiguous(), v.contiguous())
