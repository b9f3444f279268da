# about = "torch differentiates logsumexp, which gives the softmax; the kernel copies."
# category = "disguise"
# group = "smuggled values"
# problem = "softmax"
# status = ["rejected", "runtime_error"]
# # Differentiated on a GPU it loses more than float32 must on scaled inputs: wrong values first.
# cuda.status = ["rejected", "runtime_error", "incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="finish",
    cpp_sources="torch::Tensor finish(torch::Tensor x);",
    cuda_sources=r"""
__global__ void finish_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

torch::Tensor finish(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    finish_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["finish"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.finish(torch.func.grad(lambda v: torch.logsumexp(v, dim=1).sum())(x).contiguous())
