# about = "The rotary positions begin at zero; the start is ignored."
# section = "mismatch"
# problem = "qk_norm_rotary"
# causes = ["wrong-coordinate", "index-off-by-one", "index-ignored", "constant-added", "operator-missing", "wrong-initial-state", "wrong-index-base", "scan-off-by-one", "base-ignored"]
# says = ["position|start|offset|place|angle|phase|index|coordinate|rotat|constant|shift"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// A warp for each head vector.
__global__ void norm_rope(const float* __restrict__ x, const float* __restrict__ gain, float* __restrict__ y,
                          int vectors, int steps, int heads, int width, float log_base, float eps) {
    const int vec = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x & 31;
    if (vec >= vectors) return;
    const float* in = x + (size_t)vec * width;
    float* out = y + (size_t)vec * width;
    const int position = (vec / heads) % steps;
    const int half = width / 2;

    float ss = 0.f;
    for (int d = lane; d < width; d += 32) ss += in[d] * in[d];
    for (int o = 16; o > 0; o >>= 1) ss += __shfl_xor_sync(0xffffffffu, ss, o);
    const float inv = rsqrtf(ss / width + eps);

    for (int d = lane; d < half; d += 32) {
        const float freq = expf(-log_base * (2.f * d) / width);
        float sn, cs;
        sincosf(position * freq, &sn, &cs);
        const float a = in[d] * inv * gain[d];
        const float b = in[d + half] * inv * gain[d + half];
        out[d] = a * cs - b * sn;
        out[d + half] = b * cs + a * sn;
    }
}

torch::Tensor norm_rope_forward(torch::Tensor x, torch::Tensor gain, double base, double eps) {
    auto y = torch::empty_like(x);
    const int steps = x.size(1), heads = x.size(2), width = x.size(3);
    const int vectors = x.size(0) * steps * heads;
    norm_rope<<<(vectors + 3) / 4, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), gain.data_ptr<float>(), y.data_ptr<float>(), vectors, steps, heads, width,
        (float)std::log(base), (float)eps);
    return y;
}
"""

ext = load_inline(
    name="norm_rope",
    cpp_sources="torch::Tensor norm_rope_forward(torch::Tensor x, torch::Tensor gain, double base, double eps);",
    cuda_sources=SRC,
    functions=["norm_rope_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        return (
            ext.norm_rope_forward(q.contiguous(), self.q_gain, self.base, self.eps),
            ext.norm_rope_forward(k.contiguous(), self.k_gain, self.base, self.eps),
        )
