# about = "The grid is rounded down, so that the last columns are never written."
# section = "mismatch"
# problem = "cumsum_middle"
# causes = ["unwritten-output", "lost-last-block"]
# says = ["last|tail|unwritten|not written|never wr|grid|no thread"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#define THREADS 32

__global__ void scan_dim1(const float* x, float* y, int batch, int length, int width) {
    int lane = blockIdx.x * THREADS + threadIdx.x;
    int b = lane / width;
    int w = lane % width;
    if (b >= batch) return;
    long base = (long)b * length * width + w;
    float running = 0.f;
    #pragma unroll 4
    for (int t = 0; t < length; t++) {
        running += x[base + (long)t * width];
        y[base + (long)t * width] = running;
    }
}

torch::Tensor scan_middle(torch::Tensor x) {
    x = x.contiguous();
    int batch = x.size(0), length = x.size(1), width = x.size(2);
    torch::Tensor y = torch::empty({batch, length, width}, x.options());
    int grid = (batch * width) / THREADS;
    scan_dim1<<<dim3(grid), dim3(THREADS)>>>(x.data_ptr<float>(), y.data_ptr<float>(), batch, length, width);
    return y;
}
"""

scan = load_inline(
    name="scan_middle_inline",
    cpp_sources=["torch::Tensor scan_middle(torch::Tensor x);"],
    cuda_sources=[source],
    functions=["scan_middle"],
)


class ModelNew(nn.Module):
    """Running sum over the middle dimension, one thread per (batch, column)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scan.scan_middle(x)
