import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ycc = load_inline(
    name="rgb_ycc",
    cpp_sources="torch::Tensor rgb_to_ycc(torch::Tensor img);",
    cuda_sources=r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__constant__ float M[12] = {
    0.299f, 0.587f, 0.114f, 0.0f,
    -0.168736f, -0.331264f, 0.5f, 0.5f,
    0.5f, -0.418688f, -0.081312f, 0.5f,
};

__global__ void ycc_kernel(const float* __restrict__ in, float* __restrict__ out, int hw) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= hw) return;
    size_t base = (size_t)blockIdx.y * 3 * hw + p;
    float r = in[base], g = in[base + hw], b = in[base + 2 * (size_t)hw];
    #pragma unroll
    for (int o = 0; o < 3; ++o)
        out[base + (size_t)o * hw] = M[4 * o] * r + M[4 * o + 1] * g + M[4 * o + 2] * b + M[4 * o + 3];
}

torch::Tensor rgb_to_ycc(torch::Tensor img) {
    img = img.contiguous();
    auto out = torch::empty_like(img);
    int B = img.size(0), hw = img.size(2) * img.size(3);
    dim3 grid((hw + 255) / 256, B);
    ycc_kernel<<<grid, 256>>>(img.data_ptr<float>(), out.data_ptr<float>(), hw);
    return out;
}
""",
    functions=["rgb_to_ycc"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, img):
        return ycc.rgb_to_ycc(img)
