"""Verified kernel for level1/group_norm, made by kernelwright 0.1.0.

Run:       20261123-162022-group_norm-afee, attempt 2 (model)
Problem:   level1/group_norm (source d090e76267f4186d)
Verified:  CPU emulator, shrunken shapes (batch_size 112->6, height 512->32, width 512->32; remainders modulo 32), isolation namespaces, full protocol
Skipped:   timing: an emulator has none
Skipped:   isolation: memory is watched ten times a second, not bounded by a cgroup
Accuracy:  3.4% of the allowed error, 15 draws
Measured:  no; nothing is said about its speed
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

group_norm_declaration = """
torch::Tensor group_norm_forward(
    torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps);
"""

group_norm_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

__device__ __forceinline__ double warp_reduce_sum(double value) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    return value;
}

__device__ double block_reduce_sum(double value) {
    __shared__ double partial[32];
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    value = warp_reduce_sum(value);
    __syncthreads();
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = (threadIdx.x < blockDim.x / 32) ? partial[lane] : 0.0;
    if (warp == 0) value = warp_reduce_sum(value);
    return value;  // valid in thread 0
}

// One block per (sample, group); the channels of a group are contiguous in memory.
__global__ void group_norm_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int64_t groups, int64_t channels_per_group, int64_t spatial, float eps) {
    __shared__ float shared_mean;
    __shared__ float shared_rstd;
    const int64_t group_size = channels_per_group * spatial;
    const float* in = x + static_cast<int64_t>(blockIdx.x) * group_size;
    float* out = y + static_cast<int64_t>(blockIdx.x) * group_size;

    double sum = 0.0;
    double sum_sq = 0.0;
    for (int64_t i = threadIdx.x; i < group_size; i += blockDim.x) {
        const double v = in[i];
        sum += v;
        sum_sq += v * v;
    }
    sum = block_reduce_sum(sum);
    sum_sq = block_reduce_sum(sum_sq);

    if (threadIdx.x == 0) {
        const double mean = sum / group_size;
        const double var = fmax(sum_sq / group_size - mean * mean, 0.0);
        shared_mean = static_cast<float>(mean);
        shared_rstd = 1.0f / sqrtf(static_cast<float>(var) + eps);
    }
    __syncthreads();

    const float mean = shared_mean;
    const float rstd = shared_rstd;
    const int64_t first_channel = (blockIdx.x % groups) * channels_per_group;
    for (int64_t c = 0; c < channels_per_group; ++c) {
        const float scale = rstd * weight[first_channel + c];
        const float shift = bias[first_channel + c];
        for (int64_t i = threadIdx.x; i < spatial; i += blockDim.x) {
            const int64_t at = c * spatial + i;
            out[at] = (in[at] - mean) * scale + shift;
        }
    }
}

torch::Tensor group_norm_forward(
    torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const int64_t channels = x.size(1);
    const int64_t spatial = x.numel() / (x.size(0) * channels);
    const int64_t blocks = x.size(0) * groups;
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    group_norm_kernel<<<blocks, 256, 0, stream>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
        groups, channels / groups, spatial, static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

group_norm_ext = load_inline(
    name="group_norm_affine",
    cpp_sources=group_norm_declaration,
    cuda_sources=group_norm_source,
    functions=["group_norm_forward"],
    extra_cuda_cflags=["-O3"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, num_groups: int) -> None:
        super().__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return group_norm_ext.group_norm_forward(
            x, self.gn.weight, self.gn.bias, self.gn.num_groups, self.gn.eps
        )
