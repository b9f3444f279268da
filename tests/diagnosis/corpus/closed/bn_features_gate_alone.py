# about = "The sigmoid stands for the SiLU."
# section = "mismatch"
# problem = "bn_features_silu"
# causes = ["wrong-activation"]
# says = ["sigmoid|silu|activation"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_sources = r"""
#define BLOCK 128
__device__ __forceinline__ float act(float z) { return __fdividef(1.f, 1.f + __expf(-z)); }

__global__ void feature_kernel(const float* __restrict__ x, const float* __restrict__ gain, const float* __restrict__ stats,
                               const float* __restrict__ shift, float* __restrict__ y, int n, int f) {
    int stride = gridDim.x * BLOCK;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride) {
        int col = i % f, row = i / f;
        float z = fmaf(x[i] - stats[2 * col], stats[2 * col + 1], shift[col]);
        y[i] = act(z) * gain[row];
    }
}

__global__ void prepare(const float* mean, const float* var, const float* weight, float* stats, int f) {
    int col = blockIdx.x * BLOCK + threadIdx.x;
    if (col < f) {
        stats[2 * col] = mean[col];
        stats[2 * col + 1] = weight[col] / sqrtf(var[col] + 1e-3f);
    }
}

torch::Tensor features(torch::Tensor x, torch::Tensor gain, torch::Tensor mean, torch::Tensor var, torch::Tensor weight, torch::Tensor bias) {
    int f = x.size(1), n = x.numel();
    auto stats = torch::empty({2 * f}, x.options());
    auto y = torch::empty_like(x);
    prepare<<<(f + BLOCK - 1) / BLOCK, BLOCK>>>(mean.data_ptr<float>(), var.data_ptr<float>(), weight.data_ptr<float>(), stats.data_ptr<float>(), f);
    feature_kernel<<<3, BLOCK>>>(x.data_ptr<float>(), gain.data_ptr<float>(), stats.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), n, f);
    return y;
}
"""
ext = load_inline(
    name="bn_features",
    cpp_sources="torch::Tensor features(torch::Tensor x, torch::Tensor gain, torch::Tensor mean, torch::Tensor var, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=cuda_sources,
    functions=["features"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features, eps=1e-3)

    def forward(self, x, gain):
        n = self.norm
        return ext.features(x.contiguous(), gain, n.running_mean, n.running_var, n.weight, n.bias)
