# about = "The targets are int64 and are read by data_ptr<int>."
# section = "binding"
# problem = "nll_map"
# causes = ["data-ptr-type"]
# says = ["int|long|type"]
# stage = ["run"]
# line = "data_ptr<int>"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void nll2d_kernel(const float* input, const int* target, const float* weight, float* output,
                             int N, int C, int HW, int ignore_index) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N * HW) {
        int n = idx / HW;
        int hw = idx % HW;
        int t = target[idx];
        if (t == ignore_index) {
            output[idx] = 0.0f;
        } else {
            output[idx] = -weight[t] * input[n * C * HW + t * HW + hw];
        }
    }
}

torch::Tensor nll2d(torch::Tensor input, torch::Tensor target, torch::Tensor weight, int ignore_index) {
    int N = input.size(0), C = input.size(1), HW = input.size(2) * input.size(3);
    auto output = torch::empty_like(target, input.options());
    int threads = 256;
    int blocks = (N * HW + threads - 1) / threads;
    nll2d_kernel<<<blocks, threads>>>(input.data_ptr<float>(), target.data_ptr<int>(), weight.data_ptr<float>(),
                                      output.data_ptr<float>(), N, C, HW, ignore_index);
    return output;
}
"""

nll2d = load_inline(
    name="nll2d",
    cpp_sources="torch::Tensor nll2d(torch::Tensor input, torch::Tensor target, torch::Tensor weight, int ignore_index);",
    cuda_sources=source,
    functions=["nll2d"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, classes, ignored):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)
        self.ignored = ignored

    def forward(self, likelihood, target):
        return nll2d.nll2d(likelihood.contiguous(), target.contiguous(), self.weight, self.ignored)
