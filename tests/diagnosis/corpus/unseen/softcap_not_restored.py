# about = "The bounded scores are not multiplied by the cap again."
# section = "mismatch"
# problem = "attention_softcap"
# causes = ["scale-missing", "operator-missing", "wrong-coefficient", "wrong-divisor"]
# says = ["scal|factor|multipl|cap|mul|tanh"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#define WARPS 4

__device__ __forceinline__ float reduce_max(float x) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, o));
    return x;
}
__device__ __forceinline__ float reduce_sum(float x) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffff, x, o);
    return x;
}

__global__ void capped_attention_kernel(const float* __restrict__ q, const float* __restrict__ k,
                                        const float* __restrict__ v, const float* __restrict__ bias,
                                        float* __restrict__ o, int rows, int H, int NQ, int NK, int D,
                                        float scale, float cap) {
    extern __shared__ float smem[];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int r = blockIdx.x * WARPS + warp;
    if (r >= rows) return;
    float* w = smem + warp * NK;
    const int bh = r / NQ;
    const int b = bh / H;
    const float4* q4 = reinterpret_cast<const float4*>(q + (size_t)r * D);

    float m = -INFINITY;
    for (int j = lane; j < NK; j += 32) {
        const float4* k4 = reinterpret_cast<const float4*>(k + ((size_t)bh * NK + j) * D);
        float s = 0.f;
        for (int c = 0; c < D / 4; ++c) {
            float4 a = q4[c], e = k4[c];
            s += a.x * e.x + a.y * e.y + a.z * e.z + a.w * e.w;
        }
        s = tanhf(s * scale / cap) + bias[b * NK + j];
        w[j] = s;
        m = fmaxf(m, s);
    }
    m = reduce_max(m);
    float sum = 0.f;
    for (int j = lane; j < NK; j += 32) {
        float e = __expf(w[j] - m);
        w[j] = e;
        sum += e;
    }
    sum = reduce_sum(sum);
    __syncwarp();
    for (int c = lane; c < D; c += 32) {
        float acc = 0.f;
        for (int j = 0; j < NK; ++j) acc += w[j] * v[((size_t)bh * NK + j) * D + c];
        o[(size_t)r * D + c] = acc / sum;
    }
}

torch::Tensor capped_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias, double cap) {
    const int H = q.size(1), NQ = q.size(2), D = q.size(3), NK = k.size(2);
    TORCH_CHECK(D % 4 == 0);
    const int rows = q.size(0) * H * NQ;
    auto o = torch::empty_like(q);
    capped_attention_kernel<<<(rows + WARPS - 1) / WARPS, WARPS * 32, WARPS * NK * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), bias.data_ptr<float>(), o.data_ptr<float>(),
        rows, H, NQ, NK, D, 1.f / sqrtf((float)D), (float)cap);
    return o;
}
"""

ext = load_inline(
    name="capped_attention",
    cpp_sources="torch::Tensor capped_attention(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, double);",
    cuda_sources=cuda_source,
    functions=["capped_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, q, k, v, bias):
        return ext.capped_attention(q.contiguous(), k.contiguous(), v.contiguous(), bias.contiguous(), self.cap)
