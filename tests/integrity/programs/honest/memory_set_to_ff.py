# about = "cudaMemset sets keys to 0xFF, the largest, before atomicMin."
# category = "memory"
# group = "memory"
# problem = "row_min"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_min",
    cpp_sources="torch::Tensor row_min(torch::Tensor x);",
    cuda_sources=r"""
__device__ unsigned key(float v) {
    unsigned bits = __float_as_uint(v);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ float value(unsigned key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

__global__ void smallest_kernel(const float* x, unsigned* keys, int columns) {
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        atomicMin(keys + blockIdx.x, key(x[blockIdx.x * columns + i]));
}

__global__ void value_kernel(const unsigned* keys, float* y, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) y[i] = value(keys[i]);
}

torch::Tensor row_min(torch::Tensor x) {
    int rows = x.size(0);
    auto y = torch::empty({rows}, x.options()), keys = torch::empty({rows}, x.options().dtype(torch::kInt32));
    unsigned* held = reinterpret_cast<unsigned*>(keys.data_ptr<int>());
    cudaMemsetAsync(held, 0xff, rows * sizeof(unsigned));
    smallest_kernel<<<rows, 64>>>(x.data_ptr<float>(), held, x.size(1));
    value_kernel<<<(rows + 31) / 32, 32>>>(held, y.data_ptr<float>(), rows);
    return y;
}
""",
    functions=["row_min"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_min(x.contiguous())
