# about = "Half of the rows on the current stream, the other half on one that nothing waits for."
# category = "clock"
# problem = "softmax_long"
# harmless = "launches run at once here, whatever their stream"
# cuda.status = ["incorrect", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += row * columns, y += row * columns;
    float largest = -INFINITY, sum = 0.f;
    for (int i = 0; i < columns; ++i) largest = fmaxf(largest, x[i]);
    for (int begin = 0; begin < columns; begin += 64) {
        float part = 0.f;
        for (int i = begin; i < min(begin + 64, columns); ++i) part += expf(x[i] - largest);
        sum += part;
    }
    for (int i = 0; i < columns; ++i) y[i] = expf(x[i] - largest) / sum;
}

torch::Tensor softmax(torch::Tensor x) {
    static cudaStream_t aside = nullptr;
    static cudaEvent_t begun = nullptr;
    if (aside == nullptr) {
        cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
        cudaEventCreate(&begun);
    }
    auto y = torch::empty_like(x);
    int rows = x.size(0), columns = x.size(1), half = rows / 2;
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    cudaEventRecord(begun, 0);
    cudaStreamWaitEvent(aside, begun, 0);
    softmax_kernel<<<(rows - half + 31) / 32, 32, 0, aside>>>(
        from + half * columns, to + half * columns, rows - half, columns);
    softmax_kernel<<<(half + 31) / 32, 32>>>(from, to, half, columns);
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
