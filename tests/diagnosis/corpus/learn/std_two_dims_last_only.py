# about = "The deviation is taken over the last dimension alone."
# section = "mismatch"
# problem = "std_two_dims"
# causes = ["statistics-over-wrong-axes"]
# says = ["ax(i|e)s|dim|over|row"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="std_scale",
    cpp_sources="torch::Tensor std_scale(torch::Tensor x);",
    cuda_sources=r"""
__global__ void std_scale_kernel(const float* x, float* y, int width, int total_rows) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x & 31;
    if (row >= total_rows) return;
    float v = lane < width ? x[row * width + lane] : 0.f;
    float s = v;
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    float mean = s / width;
    float d = lane < width ? v - mean : 0.f;
    float q = d * d;
    for (int o = 16; o > 0; o >>= 1) q += __shfl_xor_sync(0xffffffff, q, o);
    if (lane < width) y[row * width + lane] = v / (sqrtf(q / width) + 0.1f);
}

torch::Tensor std_scale(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int width = x.size(3);
    TORCH_CHECK(width <= 32);
    int rows = x.numel() / width;
    std_scale_kernel<<<(rows + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), width, rows);
    return y;
}
""",
    functions=["std_scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.std_scale(x.contiguous())
