# about = "The maximum starts at zero."
# section = "mismatch"
# problem = "max_pool"
# causes = ["pool-start-value", "reduction-start-value"]
# says = ["start|zero|0"]
# stage = ["verify"]
# line = "best"
# sample = true

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="max_pool",
    cpp_sources="torch::Tensor max_pool(torch::Tensor x);",
    cuda_sources=r"""
__global__ void max_pool_kernel(const float* x, float* y, int n, int height, int width, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ox = i % columns, oy = i / columns % rows, plane = i / (columns * rows);
    float best = 0.f;
    for (int ky = 0; ky < 3; ++ky)
        for (int kx = 0; kx < 3; ++kx) {
            int iy = oy * 2 - 1 + ky, ix = ox * 2 - 1 + kx;
            if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
            best = fmaxf(best, x[((long)plane * height + iy) * width + ix]);
        }
    y[i] = best;
}

torch::Tensor max_pool(torch::Tensor x) {
    int rows = (x.size(2) + 2 - 3) / 2 + 1, columns = (x.size(3) + 2 - 3) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), rows, columns}, x.options());
    int n = y.numel();
    max_pool_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, x.size(2), x.size(3), rows,
        columns);
    return y;
}
""",
    functions=["max_pool"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.max_pool(x.contiguous())
