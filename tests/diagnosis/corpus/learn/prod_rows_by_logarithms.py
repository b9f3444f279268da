# about = "Sums the logarithms of the magnitudes, so that the sign of the product is lost."
# section = "mismatch"
# problem = "prod_rows"
# causes = ["sign-error", "operator-missing"]
# says = ["sign|negat|abs"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void log_product(const float* x, float* y, int rows, int width) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    double s = 0.0;
    for (int j = threadIdx.x; j < width; j += 32) s += log((double)fabsf(x[row * width + j]));
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
    if (threadIdx.x == 0) y[row] = (float)exp(s);
}

torch::Tensor product(torch::Tensor x) {
    int width = x.size(2), rows = x.size(0) * x.size(1);
    auto y = torch::empty({x.size(0), x.size(1)}, x.options());
    log_product<<<(rows + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, width);
    return y;
}
"""
ext = load_inline("log_product", cpp_sources="torch::Tensor product(torch::Tensor x);", cuda_sources=SRC, functions=["product"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.product(x.contiguous())
