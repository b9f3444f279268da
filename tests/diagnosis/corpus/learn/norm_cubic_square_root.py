# about = "The root is the square root, not the cube root."
# section = "mismatch"
# problem = "norm_cubic"
# causes = ["wrong-norm-order", "root-omitted"]
# says = ["root|order|power|sqrt|1/3|norm"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <torch/extension.h>
#define ROWS 8

// columns along x, strips of the items along y
__global__ void norm_strips(const float* __restrict__ x, float* __restrict__ out, int items, int columns) {
    __shared__ float part[ROWS][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    const float* p = x + blockIdx.y * items * columns;
    float acc = 0.f;
    if (c < columns) {
        for (int i = threadIdx.y; i < items; i += ROWS) {
            float a = fabsf(p[i * columns + c]);
            acc = fmaf(a * a, a, acc);
        }
    }
    part[threadIdx.y][threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        float total = 0.f;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) total += part[r][threadIdx.x];
        out[blockIdx.y * columns + c] = sqrtf(total);
    }
}

torch::Tensor vector_norm(torch::Tensor x) {
    int batch = x.size(0), items = x.size(1), columns = x.size(2);
    auto out = torch::zeros({batch, columns}, x.options());
    dim3 block(32, ROWS);
    dim3 grid((columns + 31) / 32, batch);
    norm_strips<<<grid, block>>>(x.data_ptr<float>(), out.data_ptr<float>(), items, columns);
    return out;
}
"""
norm_ext = load_inline(name="vector_norm_ext", cpp_sources="torch::Tensor vector_norm(torch::Tensor x);", cuda_sources=cuda_code, functions=["vector_norm"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return norm_ext.vector_norm(x.contiguous())
