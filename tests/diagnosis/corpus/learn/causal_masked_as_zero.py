# about = "Masked scores become zero before the softmax, not minus infinity."
# section = "mismatch"
# problem = "attention_causal"
# causes = ["wrong-fill-value"]
# says = ["mask|-inf|zero|fill|infinit"]
# stage = ["verify"]

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

kernels = r"""
__global__ void score_kernel(const float* q, const float* k, float* scores, int n, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z;
    if (i >= n || j >= n) return;
    float keep = j <= i ? 1.0f : 0.0f;
    float total = 0.0f;
    for (int e = 0; e < d; ++e) total += q[(z * n + i) * d + e] * k[(z * n + j) * d + e];
    scores[(z * n + i) * n + j] = total * scale * keep;
}

__global__ void softmax_value_kernel(const float* scores, const float* v, float* out, int n, int d) {
    const float* s = scores + blockIdx.x * n;
    int z = blockIdx.x / n;
    int lane = threadIdx.x;
    float top = -INFINITY;
    for (int j = lane; j < n; j += 32) top = fmaxf(top, s[j]);
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    float sum = 0.0f;
    for (int j = lane; j < n; j += 32) sum += expf(s[j] - top);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    for (int e = lane; e < d; e += 32) {
        float acc = 0.0f;
        for (int j = 0; j < n; ++j) acc += expf(s[j] - top) * v[(z * n + j) * d + e];
        out[blockIdx.x * d + e] = acc / sum;
    }
}

torch::Tensor causal(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale) {
    int z = q.size(0) * q.size(1), n = q.size(2), d = q.size(3);
    auto scores = torch::empty({z, n, n}, q.options());
    auto out = torch::empty_like(q);
    dim3 block(16, 8), grid((n + 15) / 16, (n + 7) / 8, z);
    score_kernel<<<grid, block>>>(q.data_ptr<float>(), k.data_ptr<float>(), scores.data_ptr<float>(), n, d, scale);
    softmax_value_kernel<<<z * n, 32>>>(scores.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), n, d);
    return out;
}
"""

lib = load_inline(
    name="causal_two_kernels",
    cpp_sources="torch::Tensor causal(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale);",
    cuda_sources=kernels,
    functions=["causal"],
)


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, q, k, v):
        scale = 1.0 / math.sqrt(q.size(-1))
        return lib.causal(q.contiguous(), k.contiguous(), v.contiguous(), scale)
