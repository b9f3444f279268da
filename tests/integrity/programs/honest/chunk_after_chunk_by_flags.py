# about = "The block of a chunk waits for a flag of the one before it; tickets give blocks their order."
# category = "memory"
# group = "order"
# problem = "cumsum"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cumsum_kernel(const float* x, float* y, int* state, int rows, int columns, int chunks) {
    if (threadIdx.x != 0) return;
    int ticket = atomicAdd(state, 1), row = ticket % rows, chunk = ticket / rows;
    int* ready = state + 1 + row;
    x += row * columns, y += row * columns;
    while (atomicAdd(ready, 0) != chunk) {}
    __threadfence();
    int begin = chunk * 32, end = min(begin + 32, columns);
    const volatile float* before = y;
    float sum = begin ? before[begin - 1] : 0.f;
    for (int i = begin; i < end; ++i) y[i] = sum += x[i];
    __threadfence();
    atomicAdd(ready, 1);
}

torch::Tensor cumsum(torch::Tensor x) {
    int rows = x.size(0), columns = x.size(1), chunks = (columns + 31) / 32;
    auto y = torch::empty_like(x), state = torch::zeros({rows + 1}, x.options().dtype(torch::kInt32));
    cumsum_kernel<<<chunks * rows, 32>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), state.data_ptr<int>(), rows, columns, chunks);
    return y;
}
""",
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x.contiguous())
