# about = "The running sum leaves out the step itself, and the mean divides by one less than the steps."
# section = "mismatch"
# problem = "centred_drift"
# faults = [{causes = ["scan-exclusive", "scan-off-by-one"], says = ["exclusive|itself|own|shift|one step|one earlier|previous"]}, {causes = ["wrong-divisor"], says = ["divi|count|n - 1|factor|size - 1|steps - 1|36"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

// one thread owns one (row, column) and walks through the steps
__global__ void drift_kernel(const float* __restrict__ x, float* __restrict__ out, int steps, int inner) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= inner) return;

    float mean = 0.0f;
    for (int s = 0; s < steps; s++) {
        mean += x[s * inner + col];
    }
    mean /= (float)(steps - 1);

    float acc = 0.0f;
    for (int s = 0; s < steps; s++) {
        out[s * inner + col] = acc;
        acc += x[s * inner + col] - mean;
    }
}

torch::Tensor drift_cuda(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int steps = x.size(0);
    const int inner = x.numel() / steps;
    const int threads = 64;
    drift_kernel<<<(inner + threads - 1) / threads, threads>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), steps, inner);
    return out;
}
"""

drift = load_inline(
    name="centred_drift_ext",
    cpp_sources="torch::Tensor drift_cuda(torch::Tensor x);",
    cuda_sources=source,
    functions=["drift_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.drift = drift

    def forward(self, x):
        return self.drift.drift_cuda(x.contiguous())
