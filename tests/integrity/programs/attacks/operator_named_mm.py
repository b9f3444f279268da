# about = "An operator of the file's own in a namespace that reads like a matrix product calls torch."
# category = "disguise"
# group = "smuggled values"
# problem = "softmax"
# status = ["rejected"]

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


@torch.library.custom_op("mm::default", mutates_args=())
def whole(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.finish(whole(x))
