# about = "The sum without any division, of windows that are one apart and not two."
# section = "mismatch"
# problem = "avg_pool_valid_count"
# faults = [{causes = ["sum-for-mean", "pool-divisor"], says = ["sum|divis|divid"]}, {causes = ["stride-ignored"], says = ["stride"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#define BX 8
#define BY 8
#define R 1

__global__ void window_kernel(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    __shared__ float tile[BY + 2 * R][BX + 2 * R];
    const float* plane = x + (size_t)blockIdx.z * h * w;
    const int top = blockIdx.y * BY - R, left = blockIdx.x * BX - R;
    for (int i = threadIdx.y * BX + threadIdx.x; i < (BY + 2 * R) * (BX + 2 * R); i += BX * BY) {
        const int r = top + i / (BX + 2 * R), c = left + i % (BX + 2 * R);
        tile[i / (BX + 2 * R)][i % (BX + 2 * R)] = r >= 0 && r < h && c >= 0 && c < w ? plane[r * w + c] : 0.f;
    }
    __syncthreads();
    const int oy = blockIdx.y * BY + threadIdx.y, ox = blockIdx.x * BX + threadIdx.x;
    if (oy >= oh || ox >= ow) return;
    float acc = 0.f;
    for (int dy = 0; dy < 2 * R + 1; ++dy)
        for (int dx = 0; dx < 2 * R + 1; ++dx) acc += tile[threadIdx.y + dy][threadIdx.x + dx];
    y[((size_t)blockIdx.z * oh + oy) * ow + ox] = acc;
}

torch::Tensor window(torch::Tensor x) {
    const int h = x.size(2), w = x.size(3), oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 grid((ow + BX - 1) / BX, (oh + BY - 1) / BY, x.size(0) * x.size(1));
    window_kernel<<<grid, dim3(BX, BY)>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow);
    return y;
}
"""

ext = load_inline(
    name="window_ext",
    cpp_sources="torch::Tensor window(torch::Tensor x);",
    cuda_sources=source,
    functions=["window"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.window(x.contiguous())
