# about = "Within a level the bins come first and the channels last."
# section = "mismatch"
# problem = "pyramid_pool"
# causes = ["layout-misread", "transposed-operand", "wrong-channel", "inverse-permutation"]
# says = ["layout|transpos|order|channel|permut|stride"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void pyramid_kernel(const float* x, float* y, int C, int H, int W) {
    int n = blockIdx.y;
    int out_per_sample = C * 14;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out_per_sample) return;
    int bins = 1, r = i;
    while (r >= C * bins * bins) {
        r -= C * bins * bins;
        ++bins;
    }
    int c = r % C;
    r /= C;
    int by = r / bins % bins, bx = r % bins;
    int y0 = by * H / bins, y1 = ((by + 1) * H + bins - 1) / bins;
    int x0 = bx * W / bins, x1 = ((bx + 1) * W + bins - 1) / bins;
    float best = -INFINITY;
    for (int yy = y0; yy < y1; ++yy)
        for (int xx = x0; xx < x1; ++xx)
            best = fmaxf(best, x[((n * C + c) * H + yy) * W + xx]);
    y[n * out_per_sample + i] = best;
}

torch::Tensor pyramid(torch::Tensor x) {
    int N = x.size(0), C = x.size(1);
    auto y = torch::empty({N, C * 14}, x.options());
    dim3 grid((C * 14 + 63) / 64, N);
    pyramid_kernel<<<grid, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, x.size(2), x.size(3));
    return y;
}
"""

cpp_source = "torch::Tensor pyramid(torch::Tensor x);"

ext = load_inline(
    name="pyramid_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["pyramid"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.pyramid(x.contiguous())
