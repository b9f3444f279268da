# about = "The maximum is taken over masked elements too: where it is masked and large, every kept exponential vanishes and 0 / 0 is NaN."
# section = "mismatch"
# problem = "masked_softmax"
# causes = ["overflow-to-nan", "underflow-to-zero", "nan-output", "non-finite-output", "mask-wrong-place", "mask-ignored"]
# says = ["max|mask|nan|underflow|vanish|0 / 0|inf|zero"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
__global__ void masked_softmax_kernel(const float* x, const bool* keep, float* y, int columns) {
    __shared__ float red[64];
    const float* row = x + blockIdx.x * columns;
    const bool* mask = keep + blockIdx.x * columns;
    int t = threadIdx.x;
    float m = -INFINITY;
    for (int c = t; c < columns; c += blockDim.x) m = fmaxf(m, row[c]);
    red[t] = m;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (t < s) red[t] = fmaxf(red[t], red[t + s]);
        __syncthreads();
    }
    m = red[0];
    __syncthreads();
    float z = 0.f;
    for (int c = t; c < columns; c += blockDim.x) z += mask[c] ? expf(row[c] - m) : 0.f;
    red[t] = z;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (t < s) red[t] += red[t + s];
        __syncthreads();
    }
    z = red[0];
    for (int c = t; c < columns; c += blockDim.x) y[blockIdx.x * columns + c] = mask[c] ? expf(row[c] - m) / z : 0.f;
}

torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor keep) {
    auto y = torch::empty_like(x);
    int columns = x.size(-1);
    masked_softmax_kernel<<<x.numel() / columns, 64>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), y.data_ptr<float>(), columns);
    return y;
}
"""

masked_softmax = load_inline(
    name="masked_softmax",
    cpp_sources="torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor keep);",
    cuda_sources=cuda_src,
    functions=["masked_softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x, keep):
        return masked_softmax.masked_softmax(x.contiguous(), keep.contiguous())
