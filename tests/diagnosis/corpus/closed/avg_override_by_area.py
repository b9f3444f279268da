# about = "Divides by the window's six elements, where five is asked for."
# section = "mismatch"
# problem = "avg_pool_override"
# causes = ["pool-divisor", "wrong-divisor"]
# says = ["divis|divid|count|factor|override"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="block_mean",
    cpp_sources="torch::Tensor block_mean(torch::Tensor x, int64_t kh, int64_t kw);",
    cuda_sources=r"""
__global__ void block_mean_kernel(const float* x, float* y, int n, int w, int ow, int oh, int kh, int kw) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int c = i % ow;
    int r = (i / ow) % oh;
    int p = i / (ow * oh);
    const float* corner = x + ((long)p * oh * kh + r * kh) * w + c * kw;
    float sum = 0.f;
    for (int a = 0; a < kh; ++a)
        for (int b = 0; b < kw; ++b)
            sum += corner[a * w + b];
    y[i] = sum / (kh * kw);
}

torch::Tensor block_mean(torch::Tensor x, int64_t kh, int64_t kw) {
    TORCH_CHECK(x.size(2) % kh == 0 && x.size(3) % kw == 0, "the windows fit");
    int oh = x.size(2) / kh, ow = x.size(3) / kw;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int n = y.numel();
    block_mean_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, x.size(3), ow, oh, kh, kw);
    return y;
}
""",
    functions=["block_mean"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = (2, 3)

    def forward(self, x):
        return ext.block_mean(x.contiguous(), *self.window)
