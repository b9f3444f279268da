# about = "The smoothing goes to the other classes alone and is divided by their number."
# section = "mismatch"
# problem = "cross_entropy_smoothed"
# causes = ["wrong-divisor", "scale-missing", "weight-wrong-place"]
# says = ["smooth|divi|class|- 1"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

smooth_source = r"""
__global__ void smooth_ce(const float* x, const int64_t* y, float* loss, int n, int classes, float eps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* row = x + i * classes;
    float m = row[0];
    for (int c = 1; c < classes; ++c) m = fmaxf(m, row[c]);
    float z = 0.f;
    for (int c = 0; c < classes; ++c) z += expf(row[c] - m);
    float lse = m + logf(z);
    float others = 0.f;
    for (int c = 0; c < classes; ++c)
        if (c != y[i]) others += lse - row[c];
    float nll = lse - row[y[i]];
    loss[i] = (1.f - eps) * nll + eps / (classes - 1) * others;
}

__global__ void mean_kernel(const float* loss, float* out, int n) {
    __shared__ float s[128];
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 128) sum += loss[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int w = 64; w > 0; w >>= 1) {
        if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = s[0] / n;
}

torch::Tensor smooth_cross_entropy(torch::Tensor x, torch::Tensor y, double eps) {
    int n = x.size(0);
    auto loss = torch::empty({n}, x.options());
    auto out = torch::empty({}, x.options());
    smooth_ce<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), loss.data_ptr<float>(), n, x.size(1), (float)eps);
    mean_kernel<<<1, 128>>>(loss.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

smooth = load_inline(
    name="smooth_ce",
    cpp_sources="torch::Tensor smooth_cross_entropy(torch::Tensor x, torch::Tensor y, double eps);",
    cuda_sources=smooth_source,
    functions=["smooth_cross_entropy"],
)


class ModelNew(nn.Module):
    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, target):
        return smooth.smooth_cross_entropy(logits.contiguous(), target.contiguous(), self.smoothing)
