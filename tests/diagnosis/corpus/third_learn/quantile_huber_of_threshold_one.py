# about = "The linear part subtracts one half, as for a threshold of one, where it is half of kappa."
# section = "mismatch"
# problem = "quantile_huber"
# causes = ["wrong-slope", "wrong-coefficient", "hard-coded-size", "constant-added", "clamp-bounds", "wrong-activation", "scale-missing"]
# says = ["threshold|kappa|delta|0\\.5|half|constant|coefficient|slope|linear|bound|beta|literal|scal|activation|factor"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// Block (32, 8): x over the targets, y over the quantiles.
__global__ void qr_huber(const float* predicted, const float* target, float* out, int n, int m, float kappa) {
    __shared__ float sums[8];
    const int b = blockIdx.x;
    float sum = 0.f;
    for (int i = threadIdx.y; i < n; i += 8) {
        const float p = predicted[b * n + i], level = (i + 0.5f) / n;
        for (int j = threadIdx.x; j < m; j += 32) {
            const float u = target[b * m + j] - p, a = fabsf(u);
            float h;
            if (a <= kappa)
                h = 0.5f * a * a;
            else
                h = kappa * (a - 0.5f);
            sum += fabsf(level - (float)(u < 0.f)) * h;
        }
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0) sums[threadIdx.y] = sum;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        float total = 0.f;
        for (int w = 0; w < 8; ++w) total += sums[w];
        out[b] = total / (kappa * m);
    }
}

torch::Tensor qr(torch::Tensor predicted, torch::Tensor target, double kappa) {
    auto out = torch::empty({predicted.size(0)}, predicted.options());
    qr_huber<<<predicted.size(0), dim3(32, 8), 0, at::cuda::getCurrentCUDAStream()>>>(
        predicted.data_ptr<float>(), target.data_ptr<float>(), out.data_ptr<float>(), predicted.size(1), target.size(1), kappa);
    return out;
}
"""
ext = load_inline(
    name="qr_huber",
    cpp_sources="torch::Tensor qr(torch::Tensor predicted, torch::Tensor target, double kappa);",
    cuda_sources=SRC,
    functions=["qr"],
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return ext.qr(predicted.contiguous(), target.contiguous(), self.kappa)
