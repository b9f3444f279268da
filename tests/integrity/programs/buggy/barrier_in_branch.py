# about = "A barrier that only a part of the block reaches."
# category = "races"
# problem = "cumsum"
# status = ["runtime_error"]
# finding = 'barrier'
# cuda.status = ["runtime_error", "incorrect", "timeout"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cumsum_kernel(const float* x, float* y, int columns) {
    extern __shared__ float held[];
    const float* row = x + blockIdx.x * columns;
    int i = threadIdx.x;
    held[i] = i < columns ? row[i] : 0.f;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        float before = i >= step ? held[i - step] : 0.f;
        __syncthreads();
        held[i] += before;
        if (i < columns) {
            __syncthreads();
        } else {
            __syncthreads();
        }
    }
    if (i < columns) y[blockIdx.x * columns + i] = held[i];
}

torch::Tensor cumsum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int threads = 32;
    while (threads < x.size(1)) threads *= 2;
    TORCH_CHECK(threads <= 1024, "rows of up to 1024 elements only");
    cumsum_kernel<<<x.size(0), threads, threads * sizeof(float)>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x.contiguous())
