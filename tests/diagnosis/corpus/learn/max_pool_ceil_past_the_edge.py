# about = "Only the upper left edge is looked at: overhanging windows read the next row, and past the tensor."
# section = "run"
# problem = "max_pool_ceil"
# causes = ["global-out-of-bounds-read", "illegal-address"]
# says = ["out of|past|beyond|outside|bounds"]
# stage = ["run", "verify", "integrity"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
template <int K, int S, int P>
__global__ void pool(const float* x, float* y, int h, int w, int oh, int ow) {
    int ox = blockIdx.x * blockDim.x + threadIdx.x;
    int oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= ow || oy >= oh) return;
    const float* plane = x + (long)blockIdx.z * h * w;
    float best = -INFINITY;
    #pragma unroll
    for (int i = 0; i < K; ++i) {
        int iy = oy * S - P + i;
        if (iy < 0) continue;
        #pragma unroll
        for (int j = 0; j < K; ++j) {
            int ix = ox * S - P + j;
            if (ix < 0) continue;
            best = fmaxf(best, plane[iy * w + ix]);
        }
    }
    y[((long)blockIdx.z * oh + oy) * ow + ox] = best;
}

torch::Tensor pool_ceil(torch::Tensor x) {
    int h = x.size(2), w = x.size(3);
    auto out_size = [](int n) { return (n + 2 - 3 + 1) / 2 + 1; };
    int oh = out_size(h), ow = out_size(w);
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 block(16, 8);
    dim3 grid((ow + 15) / 16, (oh + 7) / 8, x.size(0) * x.size(1));
    pool<3, 2, 1><<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow);
    return y;
}
"""

ext = load_inline(
    name="pool_ceil_ext",
    cpp_sources="torch::Tensor pool_ceil(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["pool_ceil"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        assert (kernel_size, stride, padding) == (3, 2, 1)

    def forward(self, x):
        return ext.pool_ceil(x.contiguous())
