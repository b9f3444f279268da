# about = "Third powers of signed differences: the absolute value is missing."
# section = "mismatch"
# problem = "minkowski_pairs"
# causes = ["wrong-norm-order", "operator-missing", "sign-error", "square-omitted"]
# says = ["abs|sign|magnitude|negative"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

dist_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#define BS 16

__global__ void dist3_kernel(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                             int P, int R, int W) {
    __shared__ float xs[BS][BS + 1];
    __shared__ float ys[BS][BS + 1];
    const int b = blockIdx.z;
    const int p = blockIdx.y * BS + threadIdx.y;
    const int r = blockIdx.x * BS + threadIdx.x;
    float acc = 0.0f;
    for (int w0 = 0; w0 < W; w0 += BS) {
        const int w = w0 + threadIdx.x;
        xs[threadIdx.y][threadIdx.x] = (p < P && w < W) ? x[((size_t)b * P + p) * W + w] : 0.0f;
        const int yr = blockIdx.x * BS + threadIdx.y;
        ys[threadIdx.y][threadIdx.x] = (yr < R && w < W) ? y[((size_t)b * R + yr) * W + w] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BS; ++k) {
            const float d = xs[threadIdx.y][k] - ys[threadIdx.x][k];
            acc += d * d * d;
        }
        __syncthreads();
    }
    if (p < P && r < R) out[((size_t)b * P + p) * R + r] = cbrtf(acc);
}

torch::Tensor dist3(torch::Tensor x, torch::Tensor y) {
    const int B = x.size(0), P = x.size(1), R = y.size(1), W = x.size(2);
    auto out = torch::empty({B, P, R}, x.options());
    dim3 block(BS, BS);
    dim3 grid((R + BS - 1) / BS, (P + BS - 1) / BS, B);
    dist3_kernel<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), P, R, W);
    return out;
}
"""

dist_ext = load_inline(
    name="dist3_ext",
    cpp_sources="torch::Tensor dist3(torch::Tensor x, torch::Tensor y);",
    cuda_sources=dist_source,
    functions=["dist3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, y):
        return dist_ext.dist3(x.contiguous(), y.contiguous())
