# about = "Subtracts the maximum of the whole row: what lies before it underflows."
# section = "mismatch"
# problem = "logcumsumexp_rows"
# causes = ["underflow-to-zero", "overflow-to-nan", "catastrophic-cancellation"]
# says = ["underflow|maximum|max |whole row|log\\(0|zero"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

src = r"""
#define T 256
__global__ void lcse_block(const float* x, float* y, int n) {
    __shared__ float buf[T];
    int t = threadIdx.x;
    const float* row = x + (long)blockIdx.x * n;

    float m = -INFINITY;
    for (int i = t; i < n; i += T) m = fmaxf(m, row[i]);
    buf[t] = m;
    __syncthreads();
    for (int s = T / 2; s > 0; s >>= 1) {
        if (t < s) buf[t] = fmaxf(buf[t], buf[t + s]);
        __syncthreads();
    }
    m = buf[0];
    __syncthreads();

    float carry = 0.f;
    for (int base = 0; base < n; base += T) {
        int i = base + t;
        buf[t] = i < n ? __expf(row[i] - m) : 0.f;
        __syncthreads();
        for (int d = 1; d < T; d *= 2) {
            float left = t >= d ? buf[t - d] : 0.f;
            __syncthreads();
            buf[t] += left;
            __syncthreads();
        }
        if (i < n) y[(long)blockIdx.x * n + i] = m + __logf(carry + buf[t]);
        carry += buf[T - 1];
        __syncthreads();
    }
}

torch::Tensor logcumsumexp(torch::Tensor x) {
    auto y = torch::empty_like(x);
    lcse_block<<<x.size(0), T>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

ext = load_inline(
    name="lcse_block",
    cpp_sources="torch::Tensor logcumsumexp(torch::Tensor x);",
    cuda_sources=src,
    functions=["logcumsumexp"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.logcumsumexp(x.contiguous())
