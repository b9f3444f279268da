import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

namespace {

__global__ void hs_kernel(const float* __restrict__ a, const float* __restrict__ b,
                          float* __restrict__ out, float scale, size_t n) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        float s = __ldg(a + i) + __ldg(b + i);
        float r6 = fminf(fmaxf(s + 3.0f, 0.0f), 6.0f);
        out[i] = s * r6 / 6.0f * scale;
    }
}

}  // namespace

torch::Tensor residual_hardswish(torch::Tensor a, torch::Tensor b, double scale) {
    auto ac = a.contiguous();
    auto bc = b.contiguous();
    auto out = torch::empty(ac.sizes(), ac.options());
    size_t n = ac.numel();
    int threads = 512;
    size_t want = (n + threads - 1) / threads;
    int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    size_t cap = (size_t)sms * 4;
    int blocks = (int)(want < cap ? want : cap);
    if (blocks < 1) blocks = 1;
    hs_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        ac.data_ptr<float>(), bc.data_ptr<float>(), out.data_ptr<float>(), (float)scale, n);
    return out;
}
"""

cpp_source = "torch::Tensor residual_hardswish(torch::Tensor a, torch::Tensor b, double scale);"

_ext = load_inline(name="hs_residual", cpp_sources=[cpp_source], cuda_sources=[cuda_source],
                   functions=["residual_hardswish"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, scale=0.75):
        super().__init__()
        self.scale = scale

    def forward(self, x, residual):
        return _ext.residual_hardswish(x, residual, self.scale)
