# about = "Divides every running sum by the length."
# section = "mismatch"
# problem = "running_mean"
# causes = ["wrong-divisor"]
# says = ["divis|divid|count|length|60"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

rm_src = """
#include <torch/extension.h>

__global__ void running_mean_kernel(const float* x, float* y, int batch, int steps, int features) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * features) return;
    int b = idx / features;
    int f = idx % features;
    const float inv = 1.0f / steps;
    float sum = 0.0f;
    for (int t = 0; t < steps; t++) {
        int at = (b * steps + t) * features + f;
        sum += x[at];
        y[at] = sum * inv;
    }
}

torch::Tensor running_mean(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int batch = x.size(0);
    int steps = x.size(1);
    int features = x.size(2);
    const int threads = 64;
    const int blocks = (batch * features + threads - 1) / threads;
    running_mean_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), batch, steps, features);
    return y;
}
"""

running_mean = load_inline(
    name="running_mean",
    cpp_sources="torch::Tensor running_mean(torch::Tensor x);",
    cuda_sources=rm_src,
    functions=["running_mean"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = running_mean

    def forward(self, x):
        return self.op.running_mean(x.contiguous())
