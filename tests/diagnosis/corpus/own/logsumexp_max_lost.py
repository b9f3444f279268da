# about = "The maximum is never added back."
# section = "mismatch"
# problem = "logsumexp_relu"
# causes = ["max-not-added-back"]
# says = ["max"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="logsumexp_relu",
    cpp_sources="torch::Tensor logsumexp_relu(torch::Tensor x);",
    cuda_sources=r"""
__global__ void logsumexp_relu_kernel(const float* x, float* y, int channels, int spatial, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* column = x + (long)(i / spatial) * channels * spatial + i % spatial;
    float largest = -INFINITY;
    for (int c = 0; c < channels; ++c) largest = fmaxf(largest, column[c * spatial]);
    float sum = 0.f;
    for (int c = 0; c < channels; ++c) sum += expf(column[c * spatial] - largest);
    y[i] = fmaxf(logf(sum) - 3.f, 0.f);
}

torch::Tensor logsumexp_relu(torch::Tensor x) {
    auto y = torch::empty({x.size(0), 1, x.size(2), x.size(3)}, x.options());
    int n = y.numel();
    logsumexp_relu_kernel<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1),
        x.size(2) * x.size(3), n);
    return y;
}
""",
    functions=["logsumexp_relu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.logsumexp_relu(x.contiguous())
