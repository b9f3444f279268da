# about = "The output is multiplied by the gain of the class, where the reference multiplies by one plus the gain."
# section = "mismatch"
# problem = "class_batch_norm"
# causes = ["constant-added", "operator-missing", "residual-missing", "wrong-coefficient", "weight-wrong-place"]
# says = ["one|1|constant|gain|weight|missing|added|residual|affine|scale|coefficient|left out"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void cbn_stats(const float* x, float* mean, float* rstd, float* running_mean, float* running_var, int N, int C, int L,
                          float momentum, float eps) {
    __shared__ float s1[64], s2[64];
    const int c = blockIdx.x, t = threadIdx.x, count = N * L;
    float sum = 0.f;
    for (int i = t; i < count; i += 64) sum += x[(i / L * C + c) * L + i % L];
    s1[t] = sum;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (t < k) s1[t] += s1[t + k];
        __syncthreads();
    }
    const float mu = s1[0] / count;
    float sq = 0.f;
    for (int i = t; i < count; i += 64) {
        const float d = x[(i / L * C + c) * L + i % L] - mu;
        sq += d * d;
    }
    s2[t] = sq;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (t < k) s2[t] += s2[t + k];
        __syncthreads();
    }
    if (t == 0) {
        mean[c] = mu;
        rstd[c] = rsqrtf(s2[0] / count + eps);
        running_mean[c] += momentum * (mu - running_mean[c]);
        running_var[c] += momentum * (s2[0] / (count - 1) - running_var[c]);
    }
}

__global__ void cbn_apply(const float* x, const int64_t* labels, const float* mean, const float* rstd, const float* gain,
                          const float* shift, float* y, int C, int L, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int c = i / L % C;
    const int64_t k = labels[i / (L * C)];
    y[i] = (x[i] - mean[c]) * rstd[c] * gain[k * C + c] + shift[k * C + c];
}

std::vector<torch::Tensor> cbn(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean,
                               torch::Tensor running_var, double momentum, double eps) {
    const int N = x.size(0), C = x.size(1), L = x.size(2), total = x.numel();
    auto y = torch::empty_like(x);
    auto mean = torch::empty({C}, x.options()), rstd = torch::empty({C}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    cbn_stats<<<C, 64, 0, stream>>>(x.data_ptr<float>(), mean.data_ptr<float>(), rstd.data_ptr<float>(), running_mean.data_ptr<float>(),
                                    running_var.data_ptr<float>(), N, C, L, momentum, eps);
    cbn_apply<<<(total + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), labels.data_ptr<int64_t>(), mean.data_ptr<float>(),
                                                       rstd.data_ptr<float>(), gain.data_ptr<float>(), shift.data_ptr<float>(),
                                                       y.data_ptr<float>(), C, L, total);
    return {y, running_mean.clone(), running_var.clone()};
}
"""

cbn_ext = load_inline(
    name="conditional_bn",
    cpp_sources="std::vector<torch::Tensor> cbn(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean, torch::Tensor running_var, double momentum, double eps);",
    cuda_sources=source,
    functions=["cbn"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, channels, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gain = nn.Parameter(torch.randn(classes, channels) * 0.3)
        self.shift = nn.Parameter(torch.randn(classes, channels))

    def forward(self, x, labels, running_mean, running_var):
        y, mean, var = cbn_ext.cbn(
            x.contiguous(), labels, self.gain, self.shift, running_mean, running_var, self.momentum, self.eps
        )
        return y, mean, var
