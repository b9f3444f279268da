# about = "The window has two layers in depth, not three."
# section = "mismatch"
# problem = "max_pool3d"
# causes = ["pool-window", "last-element-left-out"]
# says = ["window|kernel|depth|size"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="volume_pool",
    cpp_sources="torch::Tensor volume_pool(torch::Tensor x);",
    cuda_sources=r"""
__global__ void volume_pool_kernel(const float* x, float* y, int n, int D, int H, int W, int OD, int OH, int OW) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ow = i % OW, oh = i / OW % OH, od = i / (OW * OH) % OD, p = i / (OW * OH * OD);
    int d0 = od * 2 - 1, h0 = oh * 2 - 1, w0 = ow * 2 - 1;
    int d1 = min(d0 + 2, D), h1 = min(h0 + 3, H), w1 = min(w0 + 3, W);
    float best = -INFINITY;
    for (int d = max(d0, 0); d < d1; ++d)
        for (int h = max(h0, 0); h < h1; ++h)
            for (int w = max(w0, 0); w < w1; ++w)
                best = fmaxf(best, x[(((long)p * D + d) * H + h) * W + w]);
    y[i] = best;
}

static int halved(int n) { return (n + 2 - 3) / 2 + 1; }

torch::Tensor volume_pool(torch::Tensor x) {
    int D = x.size(2), H = x.size(3), W = x.size(4);
    auto y = torch::empty({x.size(0), x.size(1), halved(D), halved(H), halved(W)}, x.options());
    int n = y.numel();
    volume_pool_kernel<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, D, H, W, halved(D), halved(H),
                                              halved(W));
    return y;
}
""",
    functions=["volume_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()

    def forward(self, x):
        return ext.volume_pool(x.contiguous())
