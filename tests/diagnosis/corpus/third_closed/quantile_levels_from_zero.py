# about = "The quantile levels are i / n, where the reference takes the middles (i + 0.5) / n."
# section = "mismatch"
# problem = "quantile_huber"
# causes = ["wrong-coordinate", "index-off-by-one", "constant-added", "wrong-coefficient", "wrong-rounding", "wrong-index-base", "align-corners", "truncated-to-integer", "operator-missing"]
# says = ["level|quantile|0\\.5|half|middle|coordinate|index|coefficient|constant|round|offset|shift|place|position|weight"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void quantile_huber_kernel(const float* __restrict__ pred, const float* __restrict__ target, float* __restrict__ loss,
                                      int n, int m, float kappa) {
    __shared__ float red[128];
    const int b = blockIdx.x;
    float acc = 0.f;
    for (int idx = threadIdx.x; idx < n * m; idx += blockDim.x) {
        const int i = idx / m, j = idx % m;
        const float tau = (float)i / n;
        const float u = target[b * m + j] - pred[b * n + i];
        const float a = fabsf(u);
        const float huber = a <= kappa ? 0.5f * u * u : kappa * (a - 0.5f * kappa);
        acc += fabsf(tau - (u < 0.f ? 1.f : 0.f)) * huber / kappa;
    }
    red[threadIdx.x] = acc;
    __syncthreads();
    for (int s = blockDim.x >> 1; s > 0; s >>= 1) {
        if (threadIdx.x < s) red[threadIdx.x] += red[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) loss[b] = red[0] / m;
}

torch::Tensor quantile_huber(torch::Tensor pred, torch::Tensor target, double kappa) {
    auto loss = torch::empty({pred.size(0)}, pred.options());
    quantile_huber_kernel<<<pred.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        pred.data_ptr<float>(), target.data_ptr<float>(), loss.data_ptr<float>(), pred.size(1), target.size(1), (float)kappa);
    return loss;
}
"""

qh = load_inline(
    name="quantile_huber_ext",
    cpp_sources="torch::Tensor quantile_huber(torch::Tensor pred, torch::Tensor target, double kappa);",
    cuda_sources=source,
    functions=["quantile_huber"],
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return qh.quantile_huber(predicted.contiguous(), target.contiguous(), self.kappa)
