# about = "A right answer: the penalty as a bonus of the key's place, which is the same after the softmax."
# section = "right"
# problem = "attention_alibi"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="alibi_bonus",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

// A block for each pair of batch and head, a thread for each query; keys and values lie in shared memory.
__global__ void attend_kernel(const float* q, const float* k, const float* v, const float* slopes, float* y,
                              int heads, int n, int d) {
    extern __shared__ float tile[];
    float* ks = tile;
    float* vs = tile + n * d;
    long base = (long)blockIdx.x * n * d;
    for (int i = threadIdx.x; i < n * d; i += blockDim.x) {
        ks[i] = k[base + i];
        vs[i] = v[base + i];
    }
    __syncthreads();
    int i = threadIdx.x;
    if (i < n) {
        float slope = slopes[blockIdx.x % heads], scale = rsqrtf((float)d);
        float m = -1e30f, l = 0.f, acc[16];
        for (int c = 0; c < d; ++c) acc[c] = 0.f;
        for (int j = i; j >= 0; --j) {
            float s = 0.f;
            for (int c = 0; c < d; ++c) s += q[base + i * d + c] * ks[j * d + c];
            s = s * scale + slope * j;
            float next = fmaxf(m, s), keep = __expf(m - next), w = __expf(s - next);
            l = l * keep + w;
            for (int c = 0; c < d; ++c) acc[c] = acc[c] * keep + w * vs[j * d + c];
            m = next;
        }
        for (int c = 0; c < d; ++c) y[base + i * d + c] = acc[c] / l;
    }
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes) {
    int n = q.size(2), d = q.size(3);
    TORCH_CHECK(d <= 16, "heads of at most 16 features");
    auto y = torch::empty_like(q);
    attend_kernel<<<q.size(0) * q.size(1), (n + 31) / 32 * 32, 2 * n * d * sizeof(float),
        at::cuda::getCurrentCUDAStream()>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        slopes.data_ptr<float>(), y.data_ptr<float>(), q.size(1), n, d);
    return y;
}
""",
    functions=["attend"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-torch.arange(heads) * 0.8))

    def forward(self, q, k, v):
        return ext.attend(q.contiguous(), k.contiguous(), v.contiguous(), self.slopes)
