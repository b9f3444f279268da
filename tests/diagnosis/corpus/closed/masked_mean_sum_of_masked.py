# about = "The mask is read the other way round, and the sum is not divided."
# section = "mismatch"
# problem = "masked_mean"
# faults = [{causes = ["mask-inverted"], says = ["mask|keep|invert"]}, {causes = ["sum-for-mean", "wrong-divisor"], says = ["sum|mean|divi|count"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#define ROWS 8

__global__ void pool(const float* x, const bool* mask, float* out, int length, int width) {
    __shared__ float partial[ROWS][33];
    int b = blockIdx.y;
    int col = blockIdx.x * 32 + threadIdx.x;
    float acc = 0.f;
    if (col < width) {
        for (int t = threadIdx.y; t < length; t += ROWS) {
            if (mask[b * length + t]) continue;
            acc += x[(b * length + t) * width + col];
        }
    }
    partial[threadIdx.y][threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.y == 0 && col < width) {
        float total = 0.f;
        for (int r = 0; r < ROWS; ++r) total += partial[r][threadIdx.x];
        out[b * width + col] = total;
    }
}

torch::Tensor pool_forward(torch::Tensor x, torch::Tensor mask) {
    auto out = torch::zeros({x.size(0), x.size(2)}, x.options());
    dim3 grid((x.size(2) + 31) / 32, x.size(0)), block(32, ROWS);
    pool<<<grid, block>>>(x.data_ptr<float>(), mask.data_ptr<bool>(), out.data_ptr<float>(), x.size(1), x.size(2));
    return out;
}
"""

pool = load_inline(name="pool_ext", cpp_sources="torch::Tensor pool_forward(torch::Tensor x, torch::Tensor mask);",
                   cuda_sources=cuda_source, functions=["pool_forward"])


class ModelNew(nn.Module):
    def forward(self, x, keep):
        return pool.pool_forward(x.contiguous(), keep.contiguous())
