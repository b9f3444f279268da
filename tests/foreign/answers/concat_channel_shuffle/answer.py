import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cs_src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// output channel o = j * groups + g takes concatenated channel g * (C / groups) + j
__global__ void shuffle_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y,
                               int Ca, int Cb, int groups, int hw, long long total) {
    const int C = Ca + Cb;
    const int per = C / groups;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (; i < total; i += step) {
        const int p = (int)(i % hw);
        const long long q = i / hw;
        const int o = (int)(q % C);
        const long long n = q / C;
        const int src = (o % groups) * per + o / groups;
        y[i] = src < Ca ? a[(n * Ca + src) * hw + p] : b[(n * Cb + (src - Ca)) * hw + p];
    }
}

torch::Tensor concat_shuffle(torch::Tensor a, torch::Tensor b, int64_t groups) {
    a = a.contiguous();
    b = b.contiguous();
    const int N = a.size(0), Ca = a.size(1), Cb = b.size(1), H = a.size(2), W = a.size(3);
    TORCH_CHECK((Ca + Cb) % groups == 0, "channels must divide into the groups");
    auto y = torch::empty({N, Ca + Cb, H, W}, a.options());
    const long long total = y.numel();
    const int blocks = (int)std::min<long long>((total + 255) / 256, 132 * 32);
    shuffle_kernel<<<blocks, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), Ca, Cb, (int)groups, H * W, total);
    return y;
}
"""

cs = load_inline(name="concat_shuffle_ext", cpp_sources="torch::Tensor concat_shuffle(torch::Tensor a, torch::Tensor b, int64_t groups);",
                 cuda_sources=cs_src, functions=["concat_shuffle"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, a, b):
        return cs.concat_shuffle(a, b, self.groups)
