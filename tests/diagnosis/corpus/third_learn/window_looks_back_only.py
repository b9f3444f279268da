# about = "The window holds only the key itself and earlier ones; the reference looks to both sides."
# section = "mismatch"
# problem = "window_padding_attention"
# causes = ["mask-shifted", "pool-window", "clamp-bounds", "last-element-left-out", "lost-lanes"]
# says = ["mask|window|causal|side|border|diagonal|back|ahead|past|later|future|not all|left out|last|lost"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <ATen/cuda/CUDAContext.h>

template <int D>
__global__ void sliding(const float* __restrict__ x, const int64_t* __restrict__ lengths, float* __restrict__ y, int T, int H,
                        int radius) {
    // one block per head and sample, thread = query
    const int t = threadIdx.x, h = blockIdx.x, b = blockIdx.y;
    const int len = (int)lengths[b];
    extern __shared__ float cache[];
    float* ks = cache;
    float* vs = cache + T * D;
    for (int i = threadIdx.x; i < T * D; i += blockDim.x) {
        const int step = i / D, d = i % D;
        ks[i] = x[(((b * T + step) * 3 + 1) * H + h) * D + d];
        vs[i] = x[(((b * T + step) * 3 + 2) * H + h) * D + d];
    }
    __syncthreads();
    if (t >= T) return;
    float acc[D] = {0.f};
    float m = -1e30f, l = 0.f;
    if (t < len) {
        float q[D];
        for (int d = 0; d < D; ++d) q[d] = x[((b * T + t) * 3 * H + h) * D + d] * rsqrtf((float)D);
        for (int j = max(0, t - radius); j <= t; ++j) {
            float s = 0.f;
            for (int d = 0; d < D; ++d) s += q[d] * ks[j * D + d];
            const float next = fmaxf(m, s), c = expf(m - next), p = expf(s - next);
            l = l * c + p;
            for (int d = 0; d < D; ++d) acc[d] = acc[d] * c + p * vs[j * D + d];
            m = next;
        }
    } else {
        l = 1.f;
    }
    for (int d = 0; d < D; ++d) y[((b * T + t) * H + h) * D + d] = acc[d] / l;
}

torch::Tensor sliding_attention(torch::Tensor x, torch::Tensor lengths, int64_t radius) {
    const int B = x.size(0), T = x.size(1), H = x.size(3), D = x.size(4);
    TORCH_CHECK(D == 8, "only heads of 8 features");
    auto y = torch::empty({B, T, H * D}, x.options());
    sliding<8><<<dim3(H, B), (T + 31) / 32 * 32, 2 * T * D * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), lengths.data_ptr<int64_t>(), y.data_ptr<float>(), T, H, radius);
    return y;
}
"""

sliding = load_inline(
    name="sliding_attention",
    cpp_sources="torch::Tensor sliding_attention(torch::Tensor x, torch::Tensor lengths, int64_t radius);",
    cuda_sources=cuda,
    functions=["sliding_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return sliding.sliding_attention(qkv.contiguous(), lengths.contiguous(), self.radius)
