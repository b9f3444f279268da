# about = "All samples use the mask of the first one."
# section = "mismatch"
# problem = "attention_padding"
# causes = ["first-batch-only", "index-ignored", "keepdim-broadcast", "mask-shifted"]
# says = ["mask|keep|batch|sample|first"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp = "torch::Tensor prompt_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor keep);"
cuda = r"""
#include <cfloat>

__global__ void prompt_attention_kernel(const float* q, const float* k, const float* v, const bool* keep, float* o,
                                        int queries, int keys, int dim) {
    __shared__ float prob[128];
    int head = blockIdx.y, row = blockIdx.x, tid = threadIdx.x;
    const float* qp = q + (head * queries + row) * dim;
    float scale = 1.0f / sqrtf((float)dim);
    for (int j = tid; j < keys; j += blockDim.x) {
        if (keep[j]) {
            float acc = 0.0f;
            for (int d = 0; d < dim; d++) acc += qp[d] * k[(head * keys + j) * dim + d];
            prob[j] = acc * scale;
        } else {
            prob[j] = -FLT_MAX;
        }
    }
    __syncthreads();
    float hi = -FLT_MAX;
    for (int j = 0; j < keys; j++) hi = fmaxf(hi, prob[j]);
    float total = 0.0f;
    for (int j = 0; j < keys; j++) total += expf(prob[j] - hi);
    for (int d = tid; d < dim; d += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j < keys; j++) acc += expf(prob[j] - hi) * v[(head * keys + j) * dim + d];
        o[(head * queries + row) * dim + d] = acc / total;
    }
}

torch::Tensor prompt_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor keep) {
    TORCH_CHECK(k.size(2) <= 128, "too many keys");
    auto o = torch::empty_like(q);
    dim3 grid(q.size(2), q.size(0) * q.size(1));
    prompt_attention_kernel<<<grid, 32>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                        keep.data_ptr<bool>(), o.data_ptr<float>(), q.size(2), k.size(2), q.size(3));
    return o;
}
"""
prompt = load_inline(name="prompt_attention", cpp_sources=cpp, cuda_sources=cuda, functions=["prompt_attention"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v, keep):
        return prompt.prompt_attention(q.contiguous(), k.contiguous(), v.contiguous(), keep.contiguous())
