# about = "The padding is left out of the output's length."
# section = "mismatch"
# problem = "avg_pool1d"
# causes = ["wrong-shape", "padding-ignored"]
# says = ["pad|4, 9, 25"]
# stage = ["run", "verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

kernel_source = r"""
__global__ void mean_windows(const float* x, float* y, int len, int out_len) {
    extern __shared__ float line[];
    for (int i = threadIdx.x; i < len + 2; i += blockDim.x)
        line[i] = i == 0 || i == len + 1 ? 0.f : x[(long)blockIdx.x * len + i - 1];
    __syncthreads();
    for (int o = threadIdx.x; o < out_len; o += blockDim.x) {
        const float* w = line + 2 * o;
        y[(long)blockIdx.x * out_len + o] = (w[0] + w[1] + w[2] + w[3]) / 4.f;
    }
}

torch::Tensor mean_windows_forward(torch::Tensor x) {
    const int kernel = 4, stride = 2;
    int len = x.size(-1);
    int out_len = (len - kernel) / stride + 1;
    auto shape = x.sizes().vec();
    shape.back() = out_len;
    auto y = torch::empty(shape, x.options());
    mean_windows<<<x.numel() / len, 32, (len + 2) * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), len,
                                                                    out_len);
    return y;
}
"""

windows = load_inline(
    name="mean_windows",
    cpp_sources="torch::Tensor mean_windows_forward(torch::Tensor x);",
    cuda_sources=kernel_source,
    functions=["mean_windows_forward"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return windows.mean_windows_forward(x.contiguous())
