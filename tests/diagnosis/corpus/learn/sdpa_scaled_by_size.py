# about = "Scores are divided by the head size, not by its root."
# section = "mismatch"
# problem = "attention_plain"
# causes = ["root-omitted", "wrong-divisor", "scale-doubled"]
# says = ["root|sqrt|scal|divi|factor"]
# stage = ["verify"]
# line = "scale"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <math.h>

// one warp per query row
__global__ void attention_fwd(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                              float* __restrict__ O, int Lq, int Lk, int D, float scale) {
    extern __shared__ float probs[];
    int row = blockIdx.x % Lq;
    int bh = blockIdx.x / Lq;
    int lane = threadIdx.x;
    const float* q = Q + ((size_t)bh * Lq + row) * D;
    const float* k = K + (size_t)bh * Lk * D;
    const float* v = V + (size_t)bh * Lk * D;

    float m = -INFINITY;
    for (int j = lane; j < Lk; j += 32) {
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += q[d] * k[j * D + d];
        s *= scale;
        probs[j] = s;
        m = fmaxf(m, s);
    }
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    float sum = 0.f;
    for (int j = lane; j < Lk; j += 32) {
        float e = expf(probs[j] - m);
        probs[j] = e;
        sum += e;
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    __syncwarp();
    for (int d = lane; d < D; d += 32) {
        float acc = 0.f;
        for (int j = 0; j < Lk; ++j) acc += probs[j] * v[j * D + d];
        O[((size_t)bh * Lq + row) * D + d] = acc / sum;
    }
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    int B = q.size(0), H = q.size(1), Lq = q.size(2), D = q.size(3), Lk = k.size(2);
    auto out = torch::empty_like(q);
    float scale = 1.0f / (float)D;
    attention_fwd<<<B * H * Lq, 32, Lk * sizeof(float)>>>(q.data_ptr<float>(), k.data_ptr<float>(),
        v.data_ptr<float>(), out.data_ptr<float>(), Lq, Lk, D, scale);
    return out;
}
"""

cpp_source = "torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);"

attention_ext = load_inline(
    name="attention_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["attention"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = attention_ext

    def forward(self, q, k, v):
        return self.ext.attention(q.contiguous(), k.contiguous(), v.contiguous())
