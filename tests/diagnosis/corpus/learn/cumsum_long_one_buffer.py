# about = "Reads and writes one shared buffer in a step with no barrier between them."
# section = "run"
# problem = "cumsum_long"
# causes = ["shared-race", "not-deterministic"]
# says = ["shared|race|barrier|sync"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <cuda_runtime.h>
#define TILE 256

__global__ void inclusive_scan_kernel(const float* __restrict__ input, float* __restrict__ output, int cols) {
    __shared__ float tile[TILE];
    __shared__ float offset;
    const int tid = threadIdx.x;
    const size_t row_start = (size_t)blockIdx.x * cols;
    if (tid == 0) offset = 0.0f;
    for (int base = 0; base < cols; base += TILE) {
        int c = base + tid;
        tile[tid] = (c < cols) ? input[row_start + c] : 0.0f;
        __syncthreads();
        for (int stride = 1; stride < TILE; stride <<= 1) {
            if (tid >= stride) {
                tile[tid] += tile[tid - stride];
            }
            __syncthreads();
        }
        if (c < cols) output[row_start + c] = tile[tid] + offset;
        __syncthreads();
        if (tid == TILE - 1) offset += tile[tid];
        __syncthreads();
    }
}

torch::Tensor inclusive_scan(torch::Tensor input) {
    auto output = torch::empty_like(input);
    int rows = input.size(0), cols = input.size(1);
    inclusive_scan_kernel<<<rows, TILE>>>(input.data_ptr<float>(), output.data_ptr<float>(), cols);
    return output;
}
"""

inclusive = load_inline(
    name="inclusive_scan_mod",
    cpp_sources="torch::Tensor inclusive_scan(torch::Tensor input);",
    cuda_sources=SRC,
    functions=["inclusive_scan"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return inclusive.inclusive_scan(x.contiguous())
