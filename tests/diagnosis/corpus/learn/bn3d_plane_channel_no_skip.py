# about = "The channel is found with the size of a plane, not of a volume, and the residual is left out."
# section = "mismatch"
# problem = "bn3d_residual_relu"
# faults = [{causes = ["layout-misread", "wrong-channel", "affine-per-group"], says = ["channel|layout|depth|plane|ind"]}, {causes = ["residual-missing", "operator-missing"], says = ["residual|skip|add|second input"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="bn_volume",
    cpp_sources="torch::Tensor bn_volume(torch::Tensor x, torch::Tensor skip, torch::Tensor mean, torch::Tensor var, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
template <int VEC>
__global__ void bn_kernel(const float* x, const float* skip, const float* mean, const float* var, const float* w, const float* b,
                          float* y, int n, int channels, int area) {
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    #pragma unroll
    for (int k = 0; k < VEC; ++k) {
        int i = start + k;
        if (i < n) {
            int c = (i / area) % channels;
            float v = (x[i] - mean[c]) / sqrtf(var[c] + 1e-5f);
            v = v * w[c] + b[c];
            y[i] = v < 0.f ? 0.f : v;
        }
    }
}

torch::Tensor bn_volume(torch::Tensor x, torch::Tensor skip, torch::Tensor mean, torch::Tensor var, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    int threads = 96;
    int per_block = threads * 4;
    int area = x.size(3) * x.size(4);
    bn_kernel<4><<<(n + per_block - 1) / per_block, threads>>>(x.data_ptr<float>(), skip.data_ptr<float>(), mean.data_ptr<float>(),
        var.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1), area);
    return y;
}
""",
    functions=["bn_volume"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm3d(channels)

    def forward(self, x, skip):
        return ext.bn_volume(x.contiguous(), skip.contiguous(), self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias)
