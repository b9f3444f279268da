# about = "Eps is added to the standard deviation, and the momentum weighs the old running statistics instead of the new ones."
# section = "mismatch"
# problem = "class_batch_norm"
# faults = [{causes = ["eps-outside-root", "wrong-eps", "activation-order"], says = ["eps"]}, {causes = ["wrong-decay", "weights-swapped", "wrong-coefficient"], says = ["decay|momentum|running|complement|swap|exchang|weight|blend|state|coefficient"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__inline__ __device__ float block_reduce(float v, float* scratch) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    __syncthreads();
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += scratch[w];
    return total;
}

__global__ void conditional_batch_norm(const float* x, const int64_t* labels, const float* gain, const float* shift, float* run_mean,
                                       float* run_var, float* out, float* out_mean, float* out_var, int B, int C, int L, float momentum,
                                       float eps) {
    __shared__ float scratch[4];
    const int c = blockIdx.x;
    const int n = B * L;
    float v = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[(i / L) * C * L + c * L + i % L];
    const float mean = block_reduce(v, scratch) / n;
    v = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float d = x[(i / L) * C * L + c * L + i % L] - mean;
        v += d * d;
    }
    const float ssq = block_reduce(v, scratch);
    const float denom = sqrtf(ssq / n) + eps;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int b = i / L, at = b * C * L + c * L + i % L;
        const int k = (int)labels[b];
        out[at] = (x[at] - mean) / denom * (1.f + gain[k * C + c]) + shift[k * C + c];
    }
    if (threadIdx.x == 0) {
        run_mean[c] = momentum * run_mean[c] + (1.f - momentum) * mean;
        run_var[c] = momentum * run_var[c] + (1.f - momentum) * ssq / (n - 1);
        out_mean[c] = run_mean[c];
        out_var[c] = run_var[c];
    }
}

std::vector<torch::Tensor> cond_bn(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor run_mean,
                                   torch::Tensor run_var, double momentum, double eps) {
    auto out = torch::empty_like(x), out_mean = torch::empty_like(run_mean), out_var = torch::empty_like(run_var);
    conditional_batch_norm<<<x.size(1), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), labels.data_ptr<int64_t>(), gain.data_ptr<float>(), shift.data_ptr<float>(), run_mean.data_ptr<float>(),
        run_var.data_ptr<float>(), out.data_ptr<float>(), out_mean.data_ptr<float>(), out_var.data_ptr<float>(), x.size(0), x.size(1),
        x.size(2), momentum, eps);
    return {out, out_mean, out_var};
}
"""
m = load_inline(
    name="cond_bn",
    cpp_sources="std::vector<torch::Tensor> cond_bn(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor run_mean, torch::Tensor run_var, double momentum, double eps);",
    cuda_sources=source,
    functions=["cond_bn"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, channels, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gain = nn.Parameter(torch.randn(classes, channels) * 0.3)
        self.shift = nn.Parameter(torch.randn(classes, channels))

    def forward(self, x, labels, running_mean, running_var):
        return tuple(
            m.cond_bn(x.contiguous(), labels, self.gain, self.shift, running_mean, running_var, self.momentum, self.eps)
        )
