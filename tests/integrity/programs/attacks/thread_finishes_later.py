# about = "A thread fills the output a while after forward has returned it."
# category = "process"
# problem = "softmax"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'forbidden-import'
# bare.status = ["rejected", "incorrect"]

import threading

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="void warm(torch::Tensor x);",
    cuda_sources=r"""
__global__ void warm_kernel(float* scratch) {
    if (threadIdx.x == 0) scratch[0] = 1.f;
}

void warm(torch::Tensor x) {
    auto scratch = torch::empty({1}, x.options());
    warm_kernel<<<1, 32>>>(scratch.data_ptr<float>());
}
""",
    functions=["warm"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        ext.warm(x)
        y = torch.zeros_like(x)
        threading.Timer(0.4, lambda: y.copy_(torch.softmax(x, dim=1))).start()
        return y
