# about = "The weights of the classes are not used at all."
# section = "mismatch"
# problem = "cross_entropy_weighted"
# causes = ["weight-ignored", "scale-missing", "operator-missing"]
# says = ["weight"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__device__ float warp_max(float x) {
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}
__device__ float warp_add(float x) {
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

__global__ void row_losses(const float* x, const int64_t* y, float* losses, float* valid, int classes) {
    int row = blockIdx.x, lane = threadIdx.x;
    float top = -INFINITY, sum = 0.f;
    for (int c = lane; c < classes; c += 32) top = fmaxf(top, x[row * classes + c]);
    top = warp_max(top);
    for (int c = lane; c < classes; c += 32) sum += expf(x[row * classes + c] - top);
    sum = warp_add(sum);
    if (lane == 0) {
        bool used = y[row] >= 0;
        losses[row] = used ? top + logf(sum) - x[row * classes + y[row]] : 0.f;
        valid[row] = used ? 1.f : 0.f;
    }
}

__global__ void finish(const float* losses, const float* valid, float* out, int n) {
    float a = 0.f, b = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        a += losses[i];
        b += valid[i];
    }
    a = warp_add(a);
    b = warp_add(b);
    if (threadIdx.x == 0) *out = a / b;
}

torch::Tensor loss(torch::Tensor x, torch::Tensor y) {
    int n = x.size(0);
    auto losses = torch::empty({n}, x.options()), valid = torch::empty({n}, x.options()), out = torch::empty({}, x.options());
    row_losses<<<n, 32>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), losses.data_ptr<float>(), valid.data_ptr<float>(), x.size(1));
    finish<<<1, 32>>>(losses.data_ptr<float>(), valid.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

lib = load_inline(name="row_losses", cpp_sources="torch::Tensor loss(torch::Tensor x, torch::Tensor y);", cuda_sources=SRC, functions=["loss"])


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.ones(classes))

    def forward(self, logits, target):
        return lib.loss(logits.contiguous(), target.contiguous())
