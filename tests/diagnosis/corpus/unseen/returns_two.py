# about = "Ends of episodes are not looked at, and the value after the last step is left out."
# section = "mismatch"
# problem = "discounted_returns"
# faults = [{causes = ["segments-ignored", "mask-ignored", "index-ignored"], says = ["segment|mask|done|ignor|reset|border|end"]}, {causes = ["wrong-initial-state", "base-ignored", "index-ignored"], says = ["initial|state|start|begin|last|zero|base"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="discounted_returns",
    cpp_sources="torch::Tensor discounted(torch::Tensor r, torch::Tensor done, torch::Tensor last, double gamma);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void discounted_kernel(const float* r, const int* done, const float* last, float* out, int rows, int steps,
                                  float gamma) {
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        const float* src = r + row * steps;
        float* dst = out + row * steps;
        float total = src[steps - 1];
        dst[steps - 1] = total;
        for (int t = steps - 2; t >= 0; --t) {
            total = src[t] + gamma * total;
            dst[t] = total;
        }
    }
}

torch::Tensor discounted(torch::Tensor r, torch::Tensor done, torch::Tensor last, double gamma) {
    auto out = torch::empty_like(r);
    int rows = r.size(0), steps = r.size(1);
    int block = 32;
    int grid = (rows + block - 1) / block;
    discounted_kernel<<<grid, block>>>(r.data_ptr<float>(), done.data_ptr<int>(), last.data_ptr<float>(),
                                       out.data_ptr<float>(), rows, steps, (float)gamma);
    return out;
}
""",
    functions=["discounted"],
)


class ModelNew(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, rewards, done, last):
        return ext.discounted(rewards.contiguous(), done.contiguous(), last.contiguous(), self.gamma)
