# about = "A right answer: the threshold by rounds of leaving out what falls below it, without sorting."
# section = "right"
# problem = "sparsemax_rows"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="sparsemax_rounds",
    cpp_sources="torch::Tensor sparsemax(torch::Tensor x);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

// A warp for each row; every round leaves out what is not above the threshold of the rest.
__global__ void sparsemax_kernel(const float* x, float* y, int rows, int n) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += (long)row * n;
    float threshold = -INFINITY;
    int before = n + 1;
    for (int round = 0; round <= n; ++round) {
        float sum = 0.f;
        int count = 0;
        for (int i = lane; i < n; i += 32)
            if (x[i] > threshold) {
                sum += x[i];
                ++count;
            }
        for (int o = 16; o > 0; o /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, o);
            count += __shfl_xor_sync(0xffffffff, count, o);
        }
        if (count == before) break;
        before = count;
        threshold = (sum - 1.f) / count;
    }
    for (int i = lane; i < n; i += 32) y[(long)row * n + i] = fmaxf(x[i] - threshold, 0.f);
}

torch::Tensor sparsemax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.size(-1), rows = x.numel() / n;
    sparsemax_kernel<<<(rows + 2) / 3, dim3(32, 3), 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
        y.data_ptr<float>(), rows, n);
    return y;
}
""",
    functions=["sparsemax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.sparsemax(x.contiguous())
