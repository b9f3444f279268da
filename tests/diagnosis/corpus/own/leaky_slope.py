# about = "The default slope."
# section = "mismatch"
# problem = "instance_norm_leaky"
# causes = ["wrong-slope"]
# says = ["slope"]
# stage = ["verify"]
# line = "0.01"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="instance_norm",
    cpp_sources="torch::Tensor instance_norm(torch::Tensor x);",
    cuda_sources=r"""
__global__ void instance_norm_kernel(const float* x, float* y, int planes, int spatial) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= planes) return;
    const float* in = x + (long)p * spatial;
    float sum = 0.f, square = 0.f;
    for (int i = 0; i < spatial; ++i) sum += in[i];
    float mean = sum / spatial;
    for (int i = 0; i < spatial; ++i) square += (in[i] - mean) * (in[i] - mean);
    float inverse = rsqrtf(square / spatial + 1e-5f);
    for (int i = 0; i < spatial; ++i) {
        float v = (in[i] - mean) * inverse;
        y[(long)p * spatial + i] = v > 0.f ? v : 0.01f * v;
    }
}

torch::Tensor instance_norm(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int planes = x.size(0) * x.size(1);
    instance_norm_kernel<<<(planes + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), planes,
        x.size(2) * x.size(3));
    return y;
}
""",
    functions=["instance_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, slope):
        super().__init__()

    def forward(self, x):
        return ext.instance_norm(x.contiguous())
