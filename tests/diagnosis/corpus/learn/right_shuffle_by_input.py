# about = "A right answer: a block gathers the sub-pixels of one row in shared memory and writes them in order."
# section = "right"
# problem = "pixel_shuffle"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

shuffle_src = r"""
#include <torch/extension.h>

template <typename T>
__global__ void shuffle_rows(const T* __restrict__ x, T* __restrict__ y, int C, int h, int w, int r) {
    extern __shared__ float row[];
    const int oy = blockIdx.x, plane = blockIdx.y;
    const int iy = oy / r, i = oy - iy * r;
    const T* src = x + ((size_t)plane * r * r + i * r) * h * w + (size_t)iy * w;
    for (int k = threadIdx.x; k < r * w; k += blockDim.x) {
        const int j = k / w, ix = k - j * w;
        row[ix * r + j] = src[(size_t)j * h * w + ix];
    }
    __syncthreads();
    T* dst = y + ((size_t)plane * h * r + oy) * w * r;
    for (int k = threadIdx.x; k < r * w; k += blockDim.x) dst[k] = row[k];
}

torch::Tensor shuffle(torch::Tensor x, int64_t r) {
    const int N = x.size(0), C = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
    auto y = torch::empty({N, C, h * r, w * r}, x.options());
    shuffle_rows<float><<<dim3(h * r, N * C), 64, r * w * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), C,
                                                                          h, w, r);
    return y;
}
"""

shuffle = load_inline(
    name="shuffle_rows",
    cpp_sources="torch::Tensor shuffle(torch::Tensor x, int64_t r);",
    cuda_sources=shuffle_src,
    functions=["shuffle"],
)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return shuffle.shuffle(x.contiguous(), self.factor)
