# about = "The window also takes the keys ahead of the query, and scores are divided by the size of a head, not its root."
# section = "mismatch"
# problem = "attention_window"
# faults = [{causes = ["mask-ignored", "mask-shifted", "clamp-missing"], says = ["mask|causal|window|ahead|future|later|side|border|diagonal|band"]}, {causes = ["root-omitted", "wrong-divisor", "scale-doubled", "wrong-coefficient"], says = ["root|sqrt|scal|divi|factor"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="banded_attention",
    cpp_sources="torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window);",
    cuda_sources=r"""
__global__ void scores_kernel(const float* q, const float* k, float* s, int total, int n, int d, int window) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < total; e += gridDim.x * blockDim.x) {
        int j = e % n, i = e / n % n, pair = e / n / n;
        float sum = 0.f;
        for (int c = 0; c < d; ++c) sum += q[(pair * n + i) * d + c] * k[(pair * n + j) * d + c];
        s[e] = abs(i - j) < window ? sum / (float)d : -INFINITY;
    }
}

__global__ void softmax_kernel(float* s, int rows, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float* row = s + (long)r * n;
    float top = row[0];
    for (int j = 1; j < n; ++j) top = fmaxf(top, row[j]);
    float total = 0.f;
    for (int j = 0; j < n; ++j) {
        row[j] = expf(row[j] - top);
        total += row[j];
    }
    for (int j = 0; j < n; ++j) row[j] /= total;
}

__global__ void values_kernel(const float* s, const float* v, float* y, int total, int n, int d) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < total; e += gridDim.x * blockDim.x) {
        int c = e % d, row = e / d, pair = row / n;
        float sum = 0.f;
        for (int j = 0; j < n; ++j) sum += s[row * n + j] * v[(pair * n + j) * d + c];
        y[e] = sum;
    }
}

torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window) {
    int n = q.size(2), d = q.size(3), pairs = q.size(0) * q.size(1);
    auto s = torch::empty({pairs, n, n}, q.options());
    auto y = torch::empty_like(q);
    scores_kernel<<<8, 128>>>(q.data_ptr<float>(), k.data_ptr<float>(), s.data_ptr<float>(), pairs * n * n, n, d, window);
    softmax_kernel<<<(pairs * n + 63) / 64, 64>>>(s.data_ptr<float>(), pairs * n, n);
    values_kernel<<<8, 128>>>(s.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>(), pairs * n * d, n, d);
    return y;
}
""",
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, q, k, v):
        return ext.run(q.contiguous(), k.contiguous(), v.contiguous(), self.window)
