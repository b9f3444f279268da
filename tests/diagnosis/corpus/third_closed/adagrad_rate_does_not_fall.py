# about = "The rate is used as given; it does not fall with the number of the step."
# section = "mismatch"
# problem = "adagrad_clipped"
# causes = ["wrong-decay", "operator-missing", "wrong-divisor", "scale-missing", "wrong-coefficient", "scale-doubled"]
# says = ["rate|decay|step|scal|factor|divi|coefficient|missing"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

// Small tensors: one block does everything, the norm first.
__global__ void fused_adagrad(float* param, const float* grad, float* state, int n, float lr, float max_norm, float wd, float eps) {
    extern __shared__ float buf[];
    float local = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) local += grad[i] * grad[i];
    buf[threadIdx.x] = local;
    __syncthreads();
    for (int offset = blockDim.x / 2; offset > 0; offset /= 2) {
        if (threadIdx.x < offset) buf[threadIdx.x] += buf[threadIdx.x + offset];
        __syncthreads();
    }
    const float norm = sqrtf(buf[0]);
    const float coef = norm + 1e-6f > max_norm ? max_norm / (norm + 1e-6f) : 1.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float g = coef * grad[i] + wd * param[i];
        float s = state[i] + g * g;
        state[i] = s;
        param[i] = param[i] - lr * (g / (sqrtf(s) + eps));
    }
}

std::vector<torch::Tensor> fused_adagrad_step(torch::Tensor param, torch::Tensor grad, torch::Tensor state, double lr, double max_norm,
                                              double wd, double eps) {
    const int threads = 128;
    fused_adagrad<<<1, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        param.data_ptr<float>(), grad.data_ptr<float>(), state.data_ptr<float>(), param.numel(), lr, max_norm, wd, eps);
    return {param, state};
}
"""

fused = load_inline(
    name="fused_adagrad",
    cpp_sources="std::vector<torch::Tensor> fused_adagrad_step(torch::Tensor param, torch::Tensor grad, torch::Tensor state, double lr, double max_norm, double wd, double eps);",
    cuda_sources=cuda_source,
    functions=["fused_adagrad_step"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super(ModelNew, self).__init__()
        self.lr = rate
        self.max_norm = greatest
        self.wd = weight_decay
        self.eps = eps

    def forward(self, p, grad, total):
        out = fused.fused_adagrad_step(p, grad.contiguous(), total, self.lr, self.max_norm, self.wd, self.eps)
        return out[0], out[1]
