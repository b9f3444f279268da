# about = "Normalises and forgets weight and bias."
# section = "mismatch"
# problem = "layer_norm"
# causes = ["affine-ignored"]
# says = ["weight|gamma|affine|parameter"]
# stage = ["verify"]
# sample = true

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__device__ float block_sum(float v) {
    __shared__ float partial[32];
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = (threadIdx.x < blockDim.x / 32) ? partial[lane] : 0.0f;
    if (warp == 0) v = warp_sum(v);
    if (threadIdx.x == 0) partial[0] = v;
    __syncthreads();
    return partial[0];
}

__global__ void layer_norm_kernel(const float* __restrict__ x, const float* __restrict__ gamma,
                                  const float* __restrict__ beta, float* __restrict__ out, int hidden, float eps) {
    const float* row = x + (size_t)blockIdx.x * hidden;
    float* dst = out + (size_t)blockIdx.x * hidden;
    float local = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) local += row[i];
    float mean = block_sum(local) / hidden;
    float sq = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
        float d = row[i] - mean;
        sq += d * d;
    }
    float var = block_sum(sq) / hidden;
    float inv_std = rsqrtf(var + eps);
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
        dst[i] = (row[i] - mean) * inv_std;
    }
}

torch::Tensor layer_norm_forward(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    x = x.contiguous();
    auto out = torch::empty_like(x);
    int hidden = x.size(-1);
    int rows = x.numel() / hidden;
    layer_norm_kernel<<<rows, 128>>>(x.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(),
                                     out.data_ptr<float>(), hidden, (float)eps);
    return out;
}
"""

cpp_source = "torch::Tensor layer_norm_forward(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps);"

layer_norm_ext = load_inline(
    name="layer_norm_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["layer_norm_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, eps=1e-3)

    def forward(self, x):
        return layer_norm_ext.layer_norm_forward(x, self.norm.weight, self.norm.bias, self.norm.eps)
