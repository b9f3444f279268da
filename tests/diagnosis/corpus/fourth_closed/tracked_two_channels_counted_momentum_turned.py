# about = "At the border the response is the mean over the channels that exist, and the running statistics keep the momentum and take in the rest."
# section = "mismatch"
# problem = "norm_pool_tracked"
# faults = [{causes = ["pool-divisor", "wrong-divisor", "padding-ignored"], says = ["divi|count|window|size|pad|border|mean|channel"]}, {causes = ["wrong-decay", "weights-swapped"], says = ["momentum|decay|swap|exchang|1 - |weight|complement|running"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void lrn_kernel(const float* __restrict__ x, float* __restrict__ y, int N, int C, int HW, int size, float alpha,
                           float beta, float k) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * C * HW) return;
    int p = idx % HW;
    int c = (idx / HW) % C;
    int n = idx / (HW * C);
    int c0 = max(c - size / 2, 0);
    int c1 = min(c + (size - 1) / 2, C - 1);
    float sum = 0.0f;
    for (int cc = c0; cc <= c1; ++cc) {
        float v = x[(n * C + cc) * HW + p];
        sum += v * v;
    }
    y[idx] = x[idx] / powf(k + alpha * sum / (c1 - c0 + 1), beta);
}

__global__ void avg_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int planes, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int plane = idx / (OW * OH);
    int h0 = max(oh * 2 - 1, 0), h1 = min(oh * 2 - 1 + 3, H);
    int w0 = ow * 2, w1 = min(ow * 2 + 2, W);
    float sum = 0.0f;
    for (int h = h0; h < h1; ++h)
        for (int w = w0; w < w1; ++w) sum += x[(plane * H + h) * W + w];
    y[idx] = sum / ((h1 - h0) * (w1 - w0));
}

__device__ float block_reduce(float v) {
    __shared__ float part[8];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += part[w];
    __syncthreads();
    return total;
}

// one block per channel
__global__ void batch_norm_kernel(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                                  const float* __restrict__ run_mean, const float* __restrict__ run_var, float* __restrict__ y,
                                  float* __restrict__ new_mean, float* __restrict__ new_var, int N, int C, int HW,
                                  float momentum, float eps) {
    int c = blockIdx.x;
    int count = N * HW;
    float s = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) s += x[((i / HW) * C + c) * HW + i % HW];
    float mean = block_reduce(s) / count;
    float q = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float d = x[((i / HW) * C + c) * HW + i % HW] - mean;
        q += d * d;
    }
    float squares = block_reduce(q);
    float inv = rsqrtf(squares / count + eps);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int at = ((i / HW) * C + c) * HW + i % HW;
        y[at] = (x[at] - mean) * inv * gamma[c] + beta[c];
    }
    if (threadIdx.x == 0) {
        new_mean[c] = momentum * run_mean[c] + (1.0f - momentum) * mean;
        new_var[c] = momentum * run_var[c] + (1.0f - momentum) * squares / (count - 1);
    }
}

std::vector<torch::Tensor> norm_pool_norm(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, torch::Tensor mean,
                                          torch::Tensor var, double momentum) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H + 2 - 3 + 1) / 2 + 1, OW = (W - 2 + 1) / 2 + 1;
    auto normed = torch::empty_like(x);
    auto pooled = torch::empty({N, C, OH, OW}, x.options());
    auto y = torch::empty_like(pooled);
    auto new_mean = torch::empty_like(mean);
    auto new_var = torch::empty_like(var);
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    int n1 = N * C * H * W, n2 = N * C * OH * OW;
    lrn_kernel<<<(n1 + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), normed.data_ptr<float>(), N, C, H * W, 4, 2.0f, 0.75f, 1.0f);
    avg_pool_kernel<<<(n2 + 255) / 256, 256, 0, stream>>>(normed.data_ptr<float>(), pooled.data_ptr<float>(), N * C, H, W, OH, OW);
    batch_norm_kernel<<<C, 128, 0, stream>>>(pooled.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(),
        mean.data_ptr<float>(), var.data_ptr<float>(), y.data_ptr<float>(), new_mean.data_ptr<float>(),
        new_var.data_ptr<float>(), N, C, OH * OW, (float)momentum, 1e-5f);
    return {y, new_mean, new_var};
}
"""

cpp_source = """
#include <vector>
std::vector<torch::Tensor> norm_pool_norm(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, torch::Tensor mean,
                                          torch::Tensor var, double momentum);
"""

npn = load_inline(name="norm_pool_norm", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["norm_pool_norm"])


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.momentum = momentum

    def forward(self, x, mean, var):
        y, new_mean, new_var = npn.norm_pool_norm(x.contiguous(), self.weight, self.bias, mean.contiguous(),
                                                  var.contiguous(), self.momentum)
        return y, new_mean, new_var
