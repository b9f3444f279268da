# about = "The bias of keys is added before the bound, and the last partial tile of keys is left out."
# section = "mismatch"
# problem = "attention_softcap"
# faults = [{causes = ["activation-order", "mask-wrong-place", "weight-wrong-place", "residual-wrong-place"], says = ["order|before|inside|bias|after|place|tanh|cap"]}, {causes = ["lost-last-block", "last-element-left-out", "lost-lanes", "hard-coded-size"], says = ["last|tile|tail|partial|remain|keys|left out|lost|multiple"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tiled_softcap",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias, double cap);",
    cuda_sources=r"""
constexpr int TILE = 8, MOST = 32;

// A block for each batch and head; a thread for each query, which walks over tiles of keys.
__global__ void attend_kernel(const float* q, const float* k, const float* v, const float* bias, float* y,
                              int heads, int queries, int keys, int d, float cap) {
    __shared__ float ks[TILE * MOST], vs[TILE * MOST];
    int pair = blockIdx.x, i = threadIdx.x, b = pair / heads;
    float sum[MOST];
    for (int c = 0; c < d; ++c) sum[c] = 0.f;
    float top = -INFINITY, total = 0.f, scale = rsqrtf((float)d);
    int tiles = keys / TILE;
    for (int t = 0; t < tiles; ++t) {
        for (int e = threadIdx.x; e < TILE * d; e += blockDim.x) {
            ks[e] = k[((long)pair * keys + t * TILE) * d + e];
            vs[e] = v[((long)pair * keys + t * TILE) * d + e];
        }
        __syncthreads();
        if (i < queries) {
            float s[TILE], high = top;
            for (int j = 0; j < TILE; ++j) {
                float dot = 0.f;
                for (int c = 0; c < d; ++c) dot += q[((long)pair * queries + i) * d + c] * ks[j * d + c];
                s[j] = cap * tanhf((dot * scale + bias[b * keys + t * TILE + j]) / cap);
                high = fmaxf(high, s[j]);
            }
            float keep = expf(top - high);
            total *= keep;
            for (int c = 0; c < d; ++c) sum[c] *= keep;
            for (int j = 0; j < TILE; ++j) {
                float w = expf(s[j] - high);
                total += w;
                for (int c = 0; c < d; ++c) sum[c] += w * vs[j * d + c];
            }
            top = high;
        }
        __syncthreads();
    }
    if (i < queries)
        for (int c = 0; c < d; ++c) y[((long)pair * queries + i) * d + c] = sum[c] / total;
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias, double cap) {
    TORCH_CHECK(q.size(3) <= MOST && q.size(2) <= 64, "too large");
    auto y = torch::empty_like(q);
    attend_kernel<<<q.size(0) * q.size(1), 64>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), q.size(1), q.size(2), k.size(2), q.size(3), (float)cap);
    return y;
}
""",
    functions=["attend"],
)


class ModelNew(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, q, k, v, bias):
        return ext.attend(q.contiguous(), k.contiguous(), v.contiguous(), bias.contiguous(), self.cap)
