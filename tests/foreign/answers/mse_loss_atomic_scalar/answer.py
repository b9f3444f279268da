import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

mse_src = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void mse_kernel(const float* a, const float* b, float* total, long n, float scale) {
    float acc = 0.0f;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        float d = a[i] - b[i];
        acc += d * d;
    }
    // warp then block
    for (int o = 16; o > 0; o /= 2) acc += __shfl_down_sync(0xffffffff, acc, o);
    __shared__ float warps[8];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (int w = 0; w < 8; w++) s += warps[w];
        atomicAdd(total, s * scale);
    }
}

torch::Tensor mse_cuda(torch::Tensor a, torch::Tensor b) {
    a = a.contiguous();
    b = b.contiguous();
    long n = a.numel();
    auto out = torch::zeros({}, a.options());
    int blocks = (int)std::min<long>((n + 255) / 256, 1024);
    mse_kernel<<<blocks, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n, 1.0f / (float)n);
    return out;
}
"""

mse = load_inline(name="mse_atomic", cpp_sources="torch::Tensor mse_cuda(torch::Tensor a, torch::Tensor b);",
                  cuda_sources=mse_src, functions=["mse_cuda"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.mse = mse

    def forward(self, predictions, targets):
        return self.mse.mse_cuda(predictions, targets)
