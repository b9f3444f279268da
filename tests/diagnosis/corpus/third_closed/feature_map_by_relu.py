# about = "The feature map is relu + 1, where the reference has elu + 1."
# section = "mismatch"
# problem = "linear_attention_padded"
# causes = ["wrong-activation", "clamp-bounds", "wrong-slope"]
# says = ["elu|activation|function|negative|clamp|bound|slope"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SRC = r"""
#include <ATen/cuda/CUDAContext.h>

#define FEATURES 16
#define VALUES 16

// One block per head: the state lives in shared memory for its whole life.
__global__ void head_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                            const int64_t* __restrict__ lengths, const float* __restrict__ skip, float* __restrict__ y,
                            int heads, int steps, int width, int values) {
    __shared__ float state[FEATURES][VALUES + 1];
    const int b = blockIdx.x / heads, h = blockIdx.x % heads;
    const int d = threadIdx.y, e = threadIdx.x;
    const int n = (int)lengths[b];
    q += (size_t)blockIdx.x * steps * width;
    k += (size_t)blockIdx.x * steps * width;
    v += (size_t)blockIdx.x * steps * values;
    y += (size_t)blockIdx.x * steps * values;
    float sum = 0.f;
    if (d < width && e <= values)
        for (int t = 0; t < n; ++t) sum += (fmaxf(k[t * width + d], 0.f) + 1.f) * (e < values ? v[t * values + e] : 1.f);
    if (e <= values && d < width) state[d][e] = sum;
    __syncthreads();
    for (int t = threadIdx.y; t < steps; t += blockDim.y) {
        if (e >= values) continue;
        float top = 0.f, bottom = 0.f;
        for (int i = 0; i < width; ++i) {
            const float f = fmaxf(q[t * width + i], 0.f) + 1.f;
            top += f * state[i][e];
            bottom += f * state[i][values];
        }
        y[t * values + e] = top / bottom + skip[h] * v[t * values + e];
    }
}

torch::Tensor head_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip) {
    const int heads = q.size(1), values = v.size(3), width = q.size(3);
    TORCH_CHECK(values < VALUES && width <= FEATURES);
    auto y = torch::empty_like(v);
    head_kernel<<<q.size(0) * heads, dim3(VALUES, FEATURES), 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), lengths.data_ptr<int64_t>(), skip.data_ptr<float>(),
        y.data_ptr<float>(), heads, q.size(2), width, values);
    return y;
}
"""

ext = load_inline(
    name="head_state",
    cpp_sources="torch::Tensor head_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, torch::Tensor skip);",
    cuda_sources=CUDA_SRC,
    functions=["head_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.skip = nn.Parameter(torch.zeros(heads))

    def forward(self, q, k, v, lengths):
        return ext.head_forward(q.contiguous(), k.contiguous(), v.contiguous(), lengths.contiguous(), self.skip)
