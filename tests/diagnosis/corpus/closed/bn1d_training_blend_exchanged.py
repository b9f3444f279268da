# about = "The running statistics keep the share that the new ones should get, and the other way round."
# section = "mismatch"
# problem = "bn1d_training"
# causes = ["wrong-decay"]
# says = ["momentum|decay|blend|complement|running|weight"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <tuple>

__device__ __forceinline__ float warp_sum(float v) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// one warp looks after one channel
__global__ void channel_stats(const float* x, const float* old_mean, const float* old_var, float* mean, float* invstd,
                              float* new_mean, float* new_var, int batch, int channels, int length) {
    const float keep = 0.15f;
    int c = blockIdx.x * blockDim.y + threadIdx.y;
    if (c >= channels) return;
    int lane = threadIdx.x;
    float sum = 0.f;
    for (int n = 0; n < batch; ++n)
        for (int l = lane; l < length; l += 32) sum += x[(n * channels + c) * length + l];
    float m = warp_sum(sum) / (batch * length);
    float sq = 0.f;
    for (int n = 0; n < batch; ++n)
        for (int l = lane; l < length; l += 32) {
            float d = x[(n * channels + c) * length + l] - m;
            sq += d * d;
        }
    sq = warp_sum(sq);
    if (lane == 0) {
        float total = batch * length;
        mean[c] = m;
        invstd[c] = rsqrtf(sq / total + 1e-4f);
        new_mean[c] = keep * old_mean[c] + (1.f - keep) * m;
        new_var[c] = keep * old_var[c] + (1.f - keep) * sq / (total - 1.f);
    }
}

__global__ void apply(const float* x, const float* mean, const float* invstd, const float* w, const float* b, float* y,
                      int n, int channels, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int c = (i / length) % channels;
    y[i] = (x[i] - mean[c]) * invstd[c] * w[c] + b[c];
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> batch_norm(torch::Tensor x, torch::Tensor rm, torch::Tensor rv,
                                                                    torch::Tensor w, torch::Tensor b) {
    int batch = x.size(0), channels = x.size(1), length = x.size(2), n = x.numel();
    auto y = torch::empty_like(x), mean = torch::empty_like(rm), inv = torch::empty_like(rm);
    auto nm = torch::empty_like(rm), nv = torch::empty_like(rv);
    channel_stats<<<(channels + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(),
        mean.data_ptr<float>(), inv.data_ptr<float>(), nm.data_ptr<float>(), nv.data_ptr<float>(), batch, channels, length);
    apply<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), mean.data_ptr<float>(), inv.data_ptr<float>(), w.data_ptr<float>(),
        b.data_ptr<float>(), y.data_ptr<float>(), n, channels, length);
    return std::make_tuple(y, nm, nv);
}
"""

module = load_inline(
    name="bn_two_kernels",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> batch_norm(torch::Tensor x, torch::Tensor rm, torch::Tensor rv, torch::Tensor w, torch::Tensor b);",
    cuda_sources=source,
    functions=["batch_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        return tuple(module.batch_norm(x.contiguous(), running_mean, running_var, self.weight, self.bias))
