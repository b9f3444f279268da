# about = "The bounds are applied before the zero point is added."
# section = "mismatch"
# problem = "fake_quant_channels"
# causes = ["activation-order", "clamp-bounds", "mask-wrong-place", "clamp-missing"]
# says = ["order|before|after|clamp|bound|place"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="fake_quantize_cuda",
    cpp_sources="torch::Tensor fake_quantize(torch::Tensor x, torch::Tensor scale, torch::Tensor zero, int64_t lo, int64_t hi);",
    cuda_sources=r"""
__global__ void fake_quant(const float* x, const float* scale, const float* zero, float* y, int C, int L, float lo, float hi) {
    int c = blockIdx.x, n = blockIdx.y;
    float s = scale[c], z = zero[c];
    size_t base = ((size_t)n * C + c) * L;
    for (int l = threadIdx.x; l < L; l += blockDim.x) {
        float code = rintf(x[base + l] / s);
        code = fminf(fmaxf(code, lo), hi) + z;
        y[base + l] = (code - z) * s;
    }
}

torch::Tensor fake_quantize(torch::Tensor x, torch::Tensor scale, torch::Tensor zero, int64_t lo, int64_t hi) {
    auto y = torch::empty_like(x);
    dim3 grid(x.size(1), x.size(0));
    fake_quant<<<grid, 32>>>(x.data_ptr<float>(), scale.data_ptr<float>(), zero.data_ptr<float>(), y.data_ptr<float>(),
        x.size(1), x.size(2), (float)lo, (float)hi);
    return y;
}
""",
    functions=["fake_quantize"],
)


class ModelNew(nn.Module):
    def __init__(self, lowest, highest):
        super().__init__()
        self.lowest = lowest
        self.highest = highest

    def forward(self, x, scale, zero):
        return ext.fake_quantize(x.contiguous(), scale.contiguous(), zero.contiguous(), self.lowest, self.highest)
