# about = "The loss is not divided by kappa, and only the first 32 targets are looked at."
# section = "mismatch"
# problem = "quantile_huber"
# faults = [{causes = ["scale-missing", "wrong-divisor", "operator-missing", "wrong-slope"], says = ["kappa|scal|divi|factor|missing|slope"]}, {causes = ["lost-lanes", "lost-last-block", "hard-coded-size", "partial-sums-not-combined", "last-element-left-out"], says = ["32|warp|lane|block|tile|stride|target|size|not all|last|tail|part|lost"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void qrdqn_loss_kernel(const float* pred, const float* target, float* loss, int n, int m, float kappa) {
    const int b = blockIdx.x, lane = threadIdx.x;
    const float t = lane < m ? target[b * m + lane] : 0.f;
    float sum = 0.f;
    for (int i = 0; i < n; ++i) {
        const float tau = (i + 0.5f) / n;
        const float u = t - pred[b * n + i];
        const float abs_u = fabsf(u);
        const float huber = abs_u < kappa ? 0.5f * u * u : kappa * (abs_u - 0.5f * kappa);
        const float w = u < 0.f ? 1.f - tau : tau;
        float v = lane < m ? w * huber : 0.f;
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        sum += v;
    }
    if (lane == 0) loss[b] = sum / m;
}

torch::Tensor qrdqn_loss(torch::Tensor pred, torch::Tensor target, double kappa) {
    auto loss = torch::empty({pred.size(0)}, pred.options());
    qrdqn_loss_kernel<<<pred.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        pred.data_ptr<float>(), target.data_ptr<float>(), loss.data_ptr<float>(), pred.size(1), target.size(1), (float)kappa);
    return loss;
}
"""
m = load_inline(
    name="qrdqn_loss",
    cpp_sources="torch::Tensor qrdqn_loss(torch::Tensor pred, torch::Tensor target, double kappa);",
    cuda_sources=source,
    functions=["qrdqn_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return m.qrdqn_loss(predicted.contiguous(), target.contiguous(), self.kappa)
