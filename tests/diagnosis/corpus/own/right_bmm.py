# about = "A right answer."
# section = "right"
# sample = true
# problem = "bmm_scaled"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="bmm",
    cpp_sources="torch::Tensor scores(torch::Tensor q, torch::Tensor k);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void scores_kernel(const float* q, const float* k, float* y, int queries, int keys, int size) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y, b = blockIdx.z;
    if (j >= keys) return;
    float sum = 0.f;
    for (int d = 0; d < size; ++d) sum += q[((long)b * queries + i) * size + d] * k[((long)b * keys + j) * size + d];
    y[((long)b * queries + i) * keys + j] = sum / sqrtf((float)size);
}

torch::Tensor scores(torch::Tensor q, torch::Tensor k) {
    auto y = torch::empty({q.size(0), q.size(1), k.size(1)}, q.options());
    dim3 grid((k.size(1) + 31) / 32, q.size(1), q.size(0));
    scores_kernel<<<grid, 32, 0, at::cuda::getCurrentCUDAStream()>>>(q.data_ptr<float>(), k.data_ptr<float>(), y.data_ptr<float>(), q.size(1), k.size(1),
        q.size(2));
    return y;
}
""",
    functions=["scores"],
)


class ModelNew(nn.Module):
    def forward(self, q, k):
        return ext.scores(q.contiguous(), k.contiguous())
