# about = "Online: where a higher value comes, the weights' sum is rescaled and the weighted sum is not."
# section = "mismatch"
# problem = "soft_pool"
# causes = ["rescale-missing", "wrong-combine"]
# says = ["rescal|online|maximum|numerator|earlier|scale|combin|window|element"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

soft_pool_src = r"""
#include <torch/extension.h>

template <int WINDOW>
__global__ void soft_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int height, int width, int rows,
                                 int columns, int stride) {
    const int ox = blockIdx.x * blockDim.x + threadIdx.x;
    const int oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= columns || oy >= rows) return;
    const float* plane = x + (long)blockIdx.z * height * width;
    float top = -INFINITY, weights = 0.f, total = 0.f;
#pragma unroll
    for (int ky = 0; ky < WINDOW; ++ky) {
#pragma unroll
        for (int kx = 0; kx < WINDOW; ++kx) {
            const float v = plane[(oy * stride + ky) * width + ox * stride + kx];
            if (v > top) {
                weights = weights * __expf(top - v) + 1.f;
                total = total + v;
                top = v;
            } else {
                const float e = __expf(v - top);
                weights += e;
                total += e * v;
            }
        }
    }
    y[((long)blockIdx.z * rows + oy) * columns + ox] = total / weights;
}

torch::Tensor soft_pool(torch::Tensor x, int64_t window, int64_t stride) {
    TORCH_CHECK(window == 3, "window of 3 only");
    int rows = (x.size(2) - window) / stride + 1, columns = (x.size(3) - window) / stride + 1;
    auto y = torch::empty({x.size(0), x.size(1), rows, columns}, x.options());
    dim3 block(8, 8);
    dim3 grid((columns + 7) / 8, (rows + 7) / 8, x.size(0) * x.size(1));
    soft_pool_kernel<3><<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(2), x.size(3), rows,
                                         columns, stride);
    return y;
}
"""

soft_pool_ext = load_inline(
    name="soft_pool_ext",
    cpp_sources="torch::Tensor soft_pool(torch::Tensor x, int64_t window, int64_t stride);",
    cuda_sources=soft_pool_src,
    functions=["soft_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, window, stride):
        super().__init__()
        self.window = window
        self.stride = stride

    def forward(self, x):
        return soft_pool_ext.soft_pool(x.contiguous(), self.window, self.stride)
