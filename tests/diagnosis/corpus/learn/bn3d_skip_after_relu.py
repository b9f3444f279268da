# about = "The residual is added after the ReLU."
# section = "mismatch"
# problem = "bn3d_residual_relu"
# causes = ["residual-wrong-place", "activation-order"]
# says = ["relu|activation|residual|skip|order|before|after"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp = "torch::Tensor bn3d_add_relu(torch::Tensor x, torch::Tensor skip, torch::Tensor mean, torch::Tensor var, torch::Tensor weight, torch::Tensor bias, double eps);"
cuda = r"""
__global__ void fused_kernel(const float* __restrict__ x, const float* __restrict__ skip, const float* __restrict__ mean,
                             const float* __restrict__ var, const float* __restrict__ weight, const float* __restrict__ bias,
                             float* __restrict__ out, int channels, int spatial, float eps) {
    // grid: (chunks of the volume, channels, batch)
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y;
    if (s >= spatial) return;
    long offset = ((long)blockIdx.z * channels + c) * spatial + s;
    float scale = weight[c] * rsqrtf(var[c] + eps);
    float v = (x[offset] - mean[c]) * scale + bias[c];
    out[offset] = fmaxf(v, 0.0f) + skip[offset];
}

torch::Tensor bn3d_add_relu(torch::Tensor x, torch::Tensor skip, torch::Tensor mean, torch::Tensor var, torch::Tensor weight,
                            torch::Tensor bias, double eps) {
    TORCH_CHECK(x.dim() == 5, "expected a 5D tensor");
    auto out = torch::empty_like(x);
    int spatial = x.size(2) * x.size(3) * x.size(4);
    dim3 grid((spatial + 63) / 64, x.size(1), x.size(0));
    fused_kernel<<<grid, 64>>>(x.data_ptr<float>(), skip.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
                               weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), x.size(1), spatial, eps);
    return out;
}
"""
fused = load_inline(name="bn3d_fused", cpp_sources=cpp, cuda_sources=cuda, functions=["bn3d_add_relu"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm3d(channels)

    def forward(self, x, skip):
        bn = self.norm
        return fused.bn3d_add_relu(x.contiguous(), skip.contiguous(), bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.eps)
