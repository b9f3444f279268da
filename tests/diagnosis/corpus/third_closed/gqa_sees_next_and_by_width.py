# about = "Every query sees the key after its own, and the scores are divided by the width instead of its root."
# section = "mismatch"
# problem = "gqa_relative_bias"
# faults = [{causes = ["mask-shifted", "index-off-by-one", "mask-ignored"], says = ["mask|causal|diagonal|next|future|off by one|ahead|one too"]}, {causes = ["root-omitted", "wrong-divisor", "scale-doubled"], says = ["root|sqrt|scal|divi|factor"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void score_kernel(const float* q, const float* k, const float* bias, float* s, int heads, int groups, int steps,
                             int width, int far) {
    int key = blockIdx.x * blockDim.x + threadIdx.x;
    int query = blockIdx.y, bh = blockIdx.z;
    if (key >= steps) return;
    int b = bh / heads, h = bh % heads, g = h * groups / heads;
    float sum = 0.f;
    for (int d = 0; d < width; ++d)
        sum += q[(bh * steps + query) * width + d] * k[((b * groups + g) * steps + key) * width + d];
    int distance = max(0, min(query - key, far));
    s[(bh * steps + query) * steps + key] = key > query + 1 ? -INFINITY : sum / width + bias[h * (far + 1) + distance];
}

__global__ void softmax_kernel(float* s, int rows, int steps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float* p = s + row * steps;
    float top = p[0], sum = 0.f;
    for (int j = 1; j < steps; ++j) top = fmaxf(top, p[j]);
    for (int j = 0; j < steps; ++j) sum += p[j] = expf(p[j] - top);
    for (int j = 0; j < steps; ++j) p[j] /= sum;
}

__global__ void mix_kernel(const float* s, const float* v, float* out, int heads, int groups, int steps, int width, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int d = i % width, row = i / width, bh = row / steps;
        int kv = bh / heads * groups + bh % heads * groups / heads;
        float sum = 0.f;
        for (int j = 0; j < steps; ++j) sum += s[row * steps + j] * v[(kv * steps + j) * width + d];
        out[i] = sum;
    }
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias) {
    int batch = q.size(0), heads = q.size(1), steps = q.size(2), width = q.size(3), groups = k.size(1);
    auto s = torch::empty({batch, heads, steps, steps}, q.options());
    auto out = torch::empty_like(q);
    auto stream = at::cuda::getCurrentCUDAStream();
    score_kernel<<<dim3((steps + 31) / 32, steps, batch * heads), 32, 0, stream>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), bias.data_ptr<float>(), s.data_ptr<float>(), heads, groups, steps, width,
        bias.size(1) - 1);
    int rows = batch * heads * steps;
    softmax_kernel<<<(rows + 63) / 64, 64, 0, stream>>>(s.data_ptr<float>(), rows, steps);
    mix_kernel<<<8, 128, 0, stream>>>(s.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), heads, groups, steps,
                                      width, rows * width);
    return out;
}
"""
mod = load_inline(
    name="three_step_attention",
    cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias);",
    cuda_sources=cuda,
    functions=["attention"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, furthest):
        super().__init__()
        self.distance_bias = nn.Parameter(torch.zeros(heads, furthest + 1))

    def forward(self, q, k, v):
        return mod.attention(q.contiguous(), k.contiguous(), v.contiguous(), self.distance_bias)
