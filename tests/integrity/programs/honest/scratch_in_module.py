# about = "Maxima and sums of rows live in buffers that the module keeps."
# category = "memory"
# problem = "softmax"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x, torch::Tensor scratch);",
    cuda_sources=r"""
__global__ void statistics_kernel(const float* x, float* scratch, int columns) {
    float largest = -INFINITY, sum = 0.f;
    const float* row = x + blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, row[i]);
    for (int o = 16; o > 0; o /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, o));
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(row[i] - largest);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) {
        scratch[2 * blockIdx.x] = largest;
        scratch[2 * blockIdx.x + 1] = sum;
    }
}

__global__ void divide_kernel(const float* x, const float* scratch, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = expf(x[i] - scratch[i / columns * 2]) / scratch[i / columns * 2 + 1];
}

torch::Tensor softmax(torch::Tensor x, torch::Tensor scratch) {
    auto y = torch::empty_like(x);
    int n = x.numel(), columns = x.size(1);
    statistics_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), scratch.data_ptr<float>(), columns);
    divide_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scratch.data_ptr<float>(), y.data_ptr<float>(), n, columns);
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = None

    def forward(self, x):
        if self.scratch is None or self.scratch.size(0) != x.size(0):
            self.scratch = torch.empty(x.size(0), 2, device=x.device)
        return ext.softmax(x.contiguous(), self.scratch)
