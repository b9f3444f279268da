# about = "Each warp keeps its own sum of squares, and the block takes that of the first warp for the whole."
# section = "mismatch"
# problem = "qk_norm_rotary"
# causes = ["partial-sums-not-combined", "lost-lanes", "lost-last-block", "lost-channels", "hard-coded-size"]
# says = ["warp|lane|partial|32|not all|combin|block|part|lost"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float warp_reduce(float x) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_down_sync(0xffffffff, x, offset);
    return x;
}

__global__ void rms_rope_kernel(const float* x, const float* gain, float* y, int steps, int heads, int width,
                                float base, float start, float eps) {
    __shared__ float inv_rms;
    extern __shared__ float row[];
    const int tid = threadIdx.x;
    const size_t at = (size_t)blockIdx.x * width;
    float value = tid < width ? x[at + tid] : 0.f;
    float squares = warp_reduce(value * value);
    if (tid == 0) inv_rms = rsqrtf(squares / width + eps);
    __syncthreads();
    if (tid < width) row[tid] = value * inv_rms * gain[tid];
    __syncthreads();
    if (tid >= width) return;
    const int half = width / 2;
    const int pair = tid % half;
    const int step = blockIdx.x / heads % steps;
    const float theta = (step + start) * powf(base, -(float)(2 * pair) / width);
    const float other = tid < half ? -row[tid + half] : row[tid - half];
    y[at + tid] = row[tid] * cosf(theta) + other * sinf(theta);
}

torch::Tensor rms_rope(torch::Tensor x, torch::Tensor gain, double base, double start, double eps) {
    auto y = torch::empty_like(x);
    const int width = x.size(3);
    const int threads = (width + 31) / 32 * 32;
    rms_rope_kernel<<<x.numel() / width, threads, width * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), gain.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), width, base, start, eps);
    return y;
}
"""

module = load_inline(
    name="rms_rope",
    cpp_sources="torch::Tensor rms_rope(torch::Tensor x, torch::Tensor gain, double base, double start, double eps);",
    cuda_sources=cuda_src,
    functions=["rms_rope"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.args = (base, start, eps)
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        return module.rms_rope(q.contiguous(), self.q_gain, *self.args), module.rms_rope(k.contiguous(), self.k_gain, *self.args)
