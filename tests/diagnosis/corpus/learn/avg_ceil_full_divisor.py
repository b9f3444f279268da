# about = "Divides by nine where a window overhangs the padded edge, too."
# section = "mismatch"
# problem = "avg_pool_ceil"
# causes = ["pool-divisor", "wrong-divisor"]
# says = ["divis|divid|count|ceil"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SRC = r"""
#include <torch/extension.h>

template <int K, int STRIDE, int PAD>
__global__ void avg_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int planes, int H, int W, int OH,
                                int OW) {
    constexpr float scale = 1.f / (K * K);
    const int n = planes * OH * OW;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int ow = i % OW, oh = (i / OW) % OH, p = i / (OW * OH);
        const int hs = max(oh * STRIDE - PAD, 0), he = min(oh * STRIDE - PAD + K, H);
        const int ws = max(ow * STRIDE - PAD, 0), we = min(ow * STRIDE - PAD + K, W);
        float s = 0.f;
        for (int r = hs; r < he; ++r)
            for (int c = ws; c < we; ++c) s += x[(p * H + r) * W + c];
        y[i] = s * scale;
    }
}

static int pooled(int n, int k, int stride, int pad) {
    int out = (n + 2 * pad - k + stride - 1) / stride + 1;
    if ((out - 1) * stride >= n + pad) --out;
    return out;
}

torch::Tensor avg_pool(torch::Tensor x) {
    const int H = x.size(2), W = x.size(3);
    const int OH = pooled(H, 3, 2, 1), OW = pooled(W, 3, 2, 1);
    auto y = torch::empty({x.size(0), x.size(1), OH, OW}, x.options());
    avg_pool_kernel<3, 2, 1><<<4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0) * x.size(1), H, W, OH,
                                         OW);
    return y;
}
"""

pool = load_inline(
    name="avg_pool_t",
    cpp_sources="torch::Tensor avg_pool(torch::Tensor x);",
    cuda_sources=CUDA_SRC,
    functions=["avg_pool"],
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return pool.avg_pool(x.contiguous())
