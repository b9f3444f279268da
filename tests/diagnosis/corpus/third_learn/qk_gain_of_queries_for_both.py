# about = "The keys are scaled by the gain of the queries."
# section = "mismatch"
# problem = "qk_norm_rotary"
# causes = ["weight-ignored", "affine-ignored", "stale-default-parameter", "weights-swapped", "operands-swapped", "index-ignored", "gamma-beta-swapped", "weight-wrong-place", "scale-missing"]
# says = ["gain|weight|scale|parameter|affine|perturbed|operand"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void fused_qk(const float* q, const float* k, const float* gain, float* qo, float* ko, int steps, int q_heads,
                         int k_heads, int width, float base, int start, float eps) {
    extern __shared__ float sm[];
    // block: one (batch, step); y: head, queries first and keys after them
    int token = blockIdx.x, head = blockIdx.y;
    bool is_q = head < q_heads;
    const float* src = is_q ? q + (token * q_heads + head) * width : k + (token * k_heads + head - q_heads) * width;
    float* dst = is_q ? qo + (token * q_heads + head) * width : ko + (token * k_heads + head - q_heads) * width;
    int d = threadIdx.x;
    float x = d < width ? src[d] : 0.0f;
    sm[d] = x * x;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (d < s) sm[d] += sm[d + s];
        __syncthreads();
    }
    float inv = rsqrtf(sm[0] / (float)width + eps);
    __syncthreads();
    if (d < width) sm[d] = x * inv * gain[d];
    __syncthreads();
    int half = width / 2;
    if (d < half) {
        float angle = (float)(token % steps + start) * powf(base, -2.0f * (float)d / (float)width);
        float c = cosf(angle), s = sinf(angle);
        dst[d] = sm[d] * c - sm[d + half] * s;
        dst[d + half] = sm[d + half] * c + sm[d] * s;
    }
}

std::vector<torch::Tensor> fused(torch::Tensor q, torch::Tensor k, torch::Tensor gain, double base, int64_t start, double eps) {
    auto qo = torch::empty_like(q);
    auto ko = torch::empty_like(k);
    int width = q.size(3);
    int threads = 32;
    while (threads < width) threads *= 2;
    dim3 grid(q.size(0) * q.size(1), q.size(2) + k.size(2));
    fused_qk<<<grid, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), gain.data_ptr<float>(), qo.data_ptr<float>(), ko.data_ptr<float>(),
        q.size(1), q.size(2), k.size(2), width, base, start, eps);
    return {qo, ko};
}
"""

qk = load_inline(
    name="fused_qk_norm_rope",
    cpp_sources="std::vector<torch::Tensor> fused(torch::Tensor q, torch::Tensor k, torch::Tensor gain, double base, int64_t start, double eps);",
    cuda_sources=source,
    functions=["fused"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        q, k = qk.fused(q.contiguous(), k.contiguous(), self.q_gain, self.base, self.start, self.eps)
        return q, k
