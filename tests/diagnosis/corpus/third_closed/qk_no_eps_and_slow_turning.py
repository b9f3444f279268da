# about = "No eps under the root, and the exponent of the base counts pairs against the width instead of half of it."
# section = "mismatch"
# problem = "qk_norm_rotary"
# faults = [{causes = ["eps-omitted"], says = ["eps"]}, {causes = ["wrong-coordinate", "wrong-coefficient", "wrong-divisor", "hard-coded-size", "root-omitted", "scale-missing", "wrong-index-base"], says = ["frequenc|expon|angle|base|half|pair|rotat|coordinate|coefficient|divi|factor|index|position|theta"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <ATen/cuda/CUDAContext.h>

// One thread per head vector; vectors are short.
__global__ void rotate_rows(const float* x, const float* g, float* y, long rows, long T, long H, long D, float base, long start) {
    long r = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* a = x + r * D;
    float sq = 0;
    for (long d = 0; d < D; d++) sq += a[d] * a[d];
    float n = 1.0f / sqrtf(sq / D);
    long pos = start + (r / H) % T;
    for (long i = 0; i < D / 2; i++) {
        float t = pos / powf(base, (float)i / D);
        float u = a[i] * n * g[i], v = a[i + D / 2] * n * g[i + D / 2];
        y[r * D + i] = u * cosf(t) - v * sinf(t);
        y[r * D + i + D / 2] = u * sinf(t) + v * cosf(t);
    }
}

torch::Tensor rotate(torch::Tensor x, torch::Tensor g, double base, int64_t start) {
    auto y = torch::zeros_like(x);
    long D = x.size(3), rows = x.numel() / D;
    rotate_rows<<<(rows + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1), x.size(2), D, base, start);
    return y;
}
"""
rot = load_inline(
    name="rotate_rows",
    cpp_sources="torch::Tensor rotate(torch::Tensor x, torch::Tensor g, double base, int64_t start);",
    cuda_sources=CUDA,
    functions=["rotate"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        q = rot.rotate(q.contiguous(), self.q_gain, self.base, self.start)
        k = rot.rotate(k.contiguous(), self.k_gain, self.base, self.start)
        return q, k
