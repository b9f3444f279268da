# about = "The maximum begins at zero, and the mean is of the elements inside alone."
# section = "mismatch"
# problem = "pool_contrast"
# faults = [{causes = ["pool-start-value", "reduction-start-value", "padding-mode", "wrong-fill-value"], says = ["start|begin|initial|zero|0|pad|fill"]}, {causes = ["pool-divisor", "wrong-divisor"], says = ["divi|count|pad"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void contrast_kernel(
    const float* __restrict__ input, float* __restrict__ output,
    const int channels_total, const int in_len, const int out_len,
    const int kernel_size, const int stride, const int padding)
{
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= channels_total * out_len) return;
    const int o = idx % out_len;
    const int c = idx / out_len;

    int start = o * stride - padding;
    int end = min(start + kernel_size, in_len);
    start = max(start, 0);

    float max_val = 0.0f;
    float sum_val = 0.0f;
    for (int i = start; i < end; ++i) {
        const float v = input[c * in_len + i];
        max_val = fmaxf(max_val, v);
        sum_val += v;
    }
    output[idx] = max_val - sum_val / (end - start);
}

torch::Tensor pool_contrast_cuda(torch::Tensor input, int kernel_size, int stride, int padding) {
    const int in_len = input.size(2);
    const int out_len = (in_len + 2 * padding - kernel_size) / stride + 1;
    auto output = torch::empty({input.size(0), input.size(1), out_len}, input.options());
    const int planes = input.size(0) * input.size(1);
    const int total = planes * out_len;
    const int threads = 256;
    const int blocks = (total + threads - 1) / threads;
    contrast_kernel<<<blocks, threads>>>(input.data_ptr<float>(), output.data_ptr<float>(),
        planes, in_len, out_len, kernel_size, stride, padding);
    return output;
}
"""

cpp_src = "torch::Tensor pool_contrast_cuda(torch::Tensor input, int kernel_size, int stride, int padding);"

pool_contrast = load_inline(
    name="pool_contrast",
    cpp_sources=cpp_src,
    cuda_sources=cuda_src,
    functions=["pool_contrast_cuda"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return pool_contrast.pool_contrast_cuda(x.contiguous(), 5, 3, 2)
