# about = "Written for rows of 1048576 elements, as a literal: rows may be fewer, and shorter ones are overrun."
# category = "structure"
# group = "size"
# problem = "tanh_wide"
# timeout_s = 120
# confirmed = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="wide",
    cpp_sources="torch::Tensor wide(torch::Tensor x);",
    cuda_sources=r"""
constexpr int COLUMNS = 1048576;

__global__ void wide_kernel(const float* x, float* y) {
    const float* row = x + static_cast<long>(blockIdx.x) * COLUMNS;
    float* out = y + static_cast<long>(blockIdx.x) * COLUMNS;
    for (int i = threadIdx.x; i < COLUMNS; i += blockDim.x) out[i] = tanhf(row[i]);
}

torch::Tensor wide(torch::Tensor x) {
    auto y = torch::empty_like(x);
    wide_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}
""",
    functions=["wide"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.wide(x.contiguous())
