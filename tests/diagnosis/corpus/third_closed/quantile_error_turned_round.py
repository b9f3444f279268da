# about = "The error is the prediction less the target, so over- and underestimates change their weights."
# section = "mismatch"
# problem = "quantile_huber"
# causes = ["sign-error", "operands-swapped", "mask-inverted", "weights-swapped"]
# says = ["sign|swap|exchang|opposite|difference|negat|invert|operand|weight|round"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

struct Huber {
    float kappa;
    __device__ float operator()(float u) const {
        const float size = fabsf(u);
        return size <= kappa ? 0.5f * u * u / kappa : size - 0.5f * kappa;
    }
};

// One warp per sample; each lane keeps some targets and runs over the quantiles.
template <typename Loss>
__global__ void pairwise(const float* predicted, const float* target, float* out, int batch, int n, int m, Loss loss) {
    const int b = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (b >= batch) return;
    float sum = 0.f;
    for (int j = lane; j < m; j += 32) {
        const float t = target[b * m + j];
        for (int i = 0; i < n; ++i) {
            const float u = predicted[b * n + i] - t;
            const float level = (i + 0.5f) / n;
            sum += (u < 0.f ? 1.f - level : level) * loss(u);
        }
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (lane == 0) out[b] = sum / m;
}

torch::Tensor pairwise_loss(torch::Tensor predicted, torch::Tensor target, double kappa) {
    const int batch = predicted.size(0);
    auto out = torch::empty({batch}, predicted.options());
    pairwise<<<(batch + 3) / 4, dim3(32, 4), 0, at::cuda::getCurrentCUDAStream()>>>(
        predicted.data_ptr<float>(), target.data_ptr<float>(), out.data_ptr<float>(), batch, predicted.size(1), target.size(1),
        Huber{(float)kappa});
    return out;
}
"""
ext = load_inline(
    name="pairwise_huber",
    cpp_sources="torch::Tensor pairwise_loss(torch::Tensor predicted, torch::Tensor target, double kappa);",
    cuda_sources=CUDA,
    functions=["pairwise_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return ext.pairwise_loss(predicted.contiguous(), target.contiguous(), self.kappa)
