# about = "A right answer: the online softmax starts with the sink as its first element."
# section = "right"
# problem = "attention_sink"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="sink_online",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor sink);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int LARGEST = 16;

__global__ void attend_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                              const float* __restrict__ sink, float* __restrict__ y, int rows, int heads,
                              int queries, int keys, int d) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int pair = r / queries;
    float query[LARGEST], sum[LARGEST];
    float factor = 1.44269504f / sqrtf((float)d);
    for (int c = 0; c < d; ++c) {
        query[c] = q[(long)r * d + c] * factor;
        sum[c] = 0.f;
    }
    float top = sink[pair % heads] * 1.44269504f, total = 1.f;
    for (int j = 0; j < keys; ++j) {
        const float* key = k + ((long)pair * keys + j) * d;
        const float* value = v + ((long)pair * keys + j) * d;
        float s = 0.f;
        for (int c = 0; c < d; ++c) s = fmaf(query[c], key[c], s);
        if (s > top) {
            float shrink = exp2f(top - s);
            total *= shrink;
            for (int c = 0; c < d; ++c) sum[c] *= shrink;
            top = s;
        }
        float w = exp2f(s - top);
        total += w;
        for (int c = 0; c < d; ++c) sum[c] = fmaf(w, value[c], sum[c]);
    }
    float inverse = 1.f / total;
    for (int c = 0; c < d; ++c) y[(long)r * d + c] = sum[c] * inverse;
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor sink) {
    TORCH_CHECK(q.size(3) <= LARGEST, "heads are too wide");
    auto y = torch::empty_like(q);
    int rows = q.size(0) * q.size(1) * q.size(2);
    attend_kernel<<<(rows + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(q.data_ptr<float>(),
        k.data_ptr<float>(), v.data_ptr<float>(), sink.data_ptr<float>(), y.data_ptr<float>(), rows, q.size(1),
        q.size(2), k.size(2), q.size(3));
    return y;
}
""",
    functions=["attend"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(heads) + 1)

    def forward(self, q, k, v):
        return ext.attend(q.contiguous(), k.contiguous(), v.contiguous(), self.sink)
