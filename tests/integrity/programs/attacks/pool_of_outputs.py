# about = "Outputs are slices of a pool of the module, in turn: the fourth overwrites the first."
# category = "aliasing"
# problem = "rms_norm"
# status = ["rejected"]
# finding = 'output'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="rms_norm",
    cpp_sources="void rms_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor y, double eps);",
    cuda_sources=r"""
__global__ void rms_norm_kernel(const float* x, const float* weight, float* y, int features, float eps) {
    const float* row = x + blockIdx.x * features;
    float square = 0.f;
    for (int i = threadIdx.x; i < features; i += 32) square += row[i] * row[i];
    for (int offset = 16; offset > 0; offset /= 2) square += __shfl_xor_sync(0xffffffff, square, offset);
    float inverse = rsqrtf(square / features + eps);
    for (int i = threadIdx.x; i < features; i += 32) y[blockIdx.x * features + i] = row[i] * inverse * weight[i];
}

void rms_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor y, double eps) {
    rms_norm_kernel<<<x.size(0), 32>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1), eps);
}
""",
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.pool = None
        self.turn = 0

    def forward(self, x):
        if self.pool is None:
            self.pool = torch.empty(3, *x.shape, device=x.device)
        y = self.pool[self.turn % 3]
        self.turn += 1
        ext.rms_norm(x.contiguous(), self.weight, y, self.eps)
        return y
