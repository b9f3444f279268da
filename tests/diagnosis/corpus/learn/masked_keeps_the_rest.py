# about = "Sums what the mask drops."
# section = "mismatch"
# problem = "masked_cumsum"
# causes = ["mask-inverted"]
# says = ["invert|negat|opposite|exchang|complement|not "]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ops = load_inline(
    name="select_sum",
    cpp_sources="at::Tensor select_sum(at::Tensor x, at::Tensor mask);",
    cuda_sources=r"""
__device__ float pick(float value, unsigned char skip) {
    return skip ? 0.f : value;
}

__global__ void select_sum_kernel(const float* x, const unsigned char* mask, float* y, int rows, int n) {
    int row = threadIdx.x + blockIdx.x * blockDim.x;
    if (row >= rows) return;
    float total = 0.f;
    int i = 0;
    for (; i + 1 < n; i += 2) {
        total += pick(x[(long)row * n + i], mask[(long)row * n + i]);
        y[(long)row * n + i] = total;
        total += pick(x[(long)row * n + i + 1], mask[(long)row * n + i + 1]);
        y[(long)row * n + i + 1] = total;
    }
    if (i < n) {
        total += pick(x[(long)row * n + i], mask[(long)row * n + i]);
        y[(long)row * n + i] = total;
    }
}

at::Tensor select_sum(at::Tensor x, at::Tensor mask) {
    at::Tensor y = at::empty_like(x);
    select_sum_kernel<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(),
        reinterpret_cast<const unsigned char*>(mask.data_ptr<bool>()), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["select_sum"],
)


class ModelNew(nn.Module):
    def __init__(self, dim=1):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return ops.select_sum(x.contiguous(), mask.contiguous())
