import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bn_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void bn_relu_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                               const float* __restrict__ rm, const float* __restrict__ rv, float* __restrict__ y,
                               int C, int HW, float eps) {
    // one (n, c) plane per block, so the channel constants are read once
    const int c = blockIdx.x % C;
    const float a = w[c] * rsqrtf(rv[c] + eps);
    const float s = b[c] - rm[c] * a;
    const float* xp = x + (size_t)blockIdx.x * HW;
    float* yp = y + (size_t)blockIdx.x * HW;
    if ((HW & 3) == 0) {
        const float4* x4 = reinterpret_cast<const float4*>(xp);
        float4* y4 = reinterpret_cast<float4*>(yp);
        for (int i = threadIdx.x; i < HW / 4; i += blockDim.x) {
            float4 v = x4[i];
            v.x = fmaxf(v.x * a + s, 0.f);
            v.y = fmaxf(v.y * a + s, 0.f);
            v.z = fmaxf(v.z * a + s, 0.f);
            v.w = fmaxf(v.w * a + s, 0.f);
            y4[i] = v;
        }
    } else {
        for (int i = threadIdx.x; i < HW; i += blockDim.x) yp[i] = fmaxf(xp[i] * a + s, 0.f);
    }
}

torch::Tensor bn_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rm, torch::Tensor rv, double eps) {
    auto xc = x.contiguous();
    if (reinterpret_cast<uintptr_t>(xc.data_ptr<float>()) % 16 != 0) xc = xc.clone();
    auto y = torch::empty_like(xc);
    int N = xc.size(0), C = xc.size(1);
    int HW = xc.numel() / (N * C);
    bn_relu_kernel<<<N * C, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        xc.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(),
        y.data_ptr<float>(), C, HW, (float)eps);
    return y;
}
"""

bn_decl = """
torch::Tensor bn_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rm, torch::Tensor rv, double eps);
"""

bn_ext = load_inline(name="bn_relu_eval", cpp_sources=bn_decl, cuda_sources=bn_src, functions=["bn_relu"],
                     extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.bn = nn.BatchNorm2d(num_features)
        self.eval()

    def forward(self, x):
        bn = self.bn
        return bn_ext.bn_relu(x, bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.eps)
