# about = "The variance is divided by count - 1."
# section = "mismatch"
# problem = "group_norm"
# causes = ["unbiased-variance"]
# says = ["unbiased|n ?- ?1|count - 1|bessel"]
# stage = ["verify"]
# sample = true

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# One block per (sample, group); two passes over the group.
source = r"""
__global__ void group_norm_kernel(const float* x, const float* weight, const float* bias, float* y,
                                  int C, int HW, int G, float eps) {
    extern __shared__ float buf[];
    const int n = blockIdx.x / G;
    const int g = blockIdx.x % G;
    const int cpg = C / G;
    const int count = cpg * HW;
    const float* xin = x + ((size_t)n * C + g * cpg) * HW;
    float* yout = y + ((size_t)n * C + g * cpg) * HW;

    float s = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) s += xin[i];
    buf[threadIdx.x] = s;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) buf[threadIdx.x] += buf[threadIdx.x + stride];
        __syncthreads();
    }
    const float mean = buf[0] / count;
    __syncthreads();

    s = 0.f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) s += (xin[i] - mean) * (xin[i] - mean);
    buf[threadIdx.x] = s;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) buf[threadIdx.x] += buf[threadIdx.x + stride];
        __syncthreads();
    }
    const float rstd = rsqrtf(buf[0] / (count - 1) + eps);

    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const int c = g * cpg + i / HW;
        yout[i] = (xin[i] - mean) * rstd * weight[c] + bias[c];
    }
}

torch::Tensor group_norm_cuda(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    const int N = x.size(0), C = x.size(1), HW = x.size(2) * x.size(3);
    auto y = torch::empty_like(x);
    const int threads = 256;
    group_norm_kernel<<<N * groups, threads, threads * sizeof(float)>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), C, HW, groups, eps);
    return y;
}
"""

module = load_inline(
    name="group_norm_cuda_module",
    cpp_sources=["torch::Tensor group_norm_cuda(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps);"],
    cuda_sources=[source],
    functions=["group_norm_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-3)

    def forward(self, x):
        return module.group_norm_cuda(x.contiguous(), self.norm.weight, self.norm.bias, self.norm.num_groups, self.norm.eps)
