# about = "Thread 0 stores maximum and sum in global memory, and after a barrier the others read them."
# category = "memory"
# group = "order"
# problem = "softmax"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, float* statistics, int columns) {
    x += blockIdx.x * columns, y += blockIdx.x * columns, statistics += 2 * blockIdx.x;
    if (threadIdx.x == 0) {
        float largest = -INFINITY, sum = 0.f;
        for (int i = 0; i < columns; ++i) largest = fmaxf(largest, x[i]);
        for (int i = 0; i < columns; ++i) sum += expf(x[i] - largest);
        statistics[0] = largest, statistics[1] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = expf(x[i] - statistics[0]) / statistics[1];
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x), statistics = torch::empty({x.size(0), 2}, x.options());
    softmax_kernel<<<x.size(0), 64>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), statistics.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
