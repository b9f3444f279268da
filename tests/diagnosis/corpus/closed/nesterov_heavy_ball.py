# about = "Steps along the velocity alone, as plain momentum does: the look-ahead of Nesterov is left out."
# section = "mismatch"
# problem = "nesterov_step"
# causes = ["operator-missing"]
# says = ["nesterov|look|missing|left out|step|velocity|momentum"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="sgd_step",
    cpp_sources="void sgd_step(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double momentum, double decay);",
    cuda_sources=r"""
__global__ void sgd_kernel(float* __restrict__ w, float* __restrict__ v, const float* __restrict__ g, int n,
                           float lr, float momentum, float decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d = fmaf(decay, w[i], g[i]);
        float vel = fmaf(momentum, v[i], d);
        v[i] = vel;
        w[i] -= lr * vel;
    }
}

void sgd_step(torch::Tensor w, torch::Tensor v, torch::Tensor g, double lr, double momentum, double decay) {
    int n = w.numel();
    const int block = 256;
    sgd_kernel<<<(n + block - 1) / block, block>>>(w.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr<float>(), n,
                                                   (float)lr, (float)momentum, (float)decay);
}
""",
    functions=["sgd_step"],
)


class ModelNew(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def forward(self, weight, velocity, grad):
        ext.sgd_step(weight, velocity, grad.contiguous(), self.lr, self.momentum, self.decay)
        return weight.clone(), velocity.clone()
