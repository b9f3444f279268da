# about = "Queries beyond the length are not set to zero but get the mean of their window's real values or of the last ones."
# section = "mismatch"
# problem = "window_padding_attention"
# causes = ["mask-ignored", "operator-missing", "padding-ignored", "wrong-fill-value", "base-ignored", "first-batch-only"]
# says = ["mask|pad|zero|length|fill|missing|beyond|left out"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// Thread per (sample, query, head); two passes over the window.
__global__ void window(const float* qkv, const int64_t* lengths, float* out, int total, int T, int H, int D, int R) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int h = i % H, t = i / H % T, b = i / (H * T);
    auto at = [&](int step, int which) { return qkv + (((b * T + step) * 3 + which) * H + h) * D; };
    int lo = max(t - R, 0), hi = min(t + R + 1, (int)lengths[b]);
    if (lo >= hi) lo = hi - 1;
    const float* q = at(t, 0);
    float scale = rsqrtf(D), m = -INFINITY, l = 0.f;
    for (int j = lo; j < hi; ++j) {
        const float* k = at(j, 1);
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += q[d] * k[d];
        s *= scale;
        float n = fmaxf(m, s);
        l = l * expf(m - n) + expf(s - n);
        m = n;
    }
    float* y = out + (size_t)i * D;
    for (int d = 0; d < D; ++d) y[d] = 0.f;
    for (int j = lo; j < hi; ++j) {
        const float *k = at(j, 1), *v = at(j, 2);
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += q[d] * k[d];
        float p = expf(s * scale - m) / l;
        for (int d = 0; d < D; ++d) y[d] += p * v[d];
    }
}

torch::Tensor window_forward(torch::Tensor qkv, torch::Tensor lengths, int64_t R) {
    int B = qkv.size(0), T = qkv.size(1), H = qkv.size(3), D = qkv.size(4), total = B * T * H;
    auto out = torch::empty({B, T, H * D}, qkv.options());
    window<<<(total + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(),
                                                                         out.data_ptr<float>(), total, T, H, D, R);
    return out;
}
"""
ext = load_inline(
    name="window_two_pass",
    cpp_sources="torch::Tensor window_forward(torch::Tensor qkv, torch::Tensor lengths, int64_t R);",
    cuda_sources=SRC,
    functions=["window_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return ext.window_forward(qkv.contiguous(), lengths.contiguous(), self.radius)
