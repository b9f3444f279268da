# about = "Sums over the targets where the reference takes their mean."
# section = "mismatch"
# problem = "quantile_huber"
# causes = ["sum-for-mean", "wrong-divisor", "operator-missing", "scale-missing"]
# says = ["sum|mean|divi|factor|count|scal|missing"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

// partial[b][i]: loss of one quantile against all targets
__global__ void per_quantile(const float* pred, const float* target, float* partial, int B, int N, int M, float kappa) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * N) return;
    int b = idx / N;
    int i = idx % N;
    float tau = (2 * i + 1) / (2.0f * N);
    float theta = pred[idx];
    float total = 0.0f;
    for (int j = 0; j < M; ++j) {
        float delta = target[b * M + j] - theta;
        float abs_delta = fabsf(delta);
        float l = abs_delta > kappa ? kappa * (abs_delta - 0.5f * kappa) : 0.5f * delta * delta;
        float w = delta < 0.0f ? 1.0f - tau : tau;
        total += w * l / kappa;
    }
    partial[idx] = total;
}

__global__ void reduce_quantiles(const float* partial, float* out, int B, int N) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float s = 0.0f;
    for (int i = 0; i < N; ++i) s += partial[b * N + i];
    out[b] = s;
}

torch::Tensor qr_loss(torch::Tensor pred, torch::Tensor target, double kappa) {
    int B = pred.size(0), N = pred.size(1), M = target.size(1);
    auto partial = torch::empty({B, N}, pred.options());
    auto out = torch::empty({B}, pred.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    per_quantile<<<(B * N + 127) / 128, 128, 0, stream>>>(pred.data_ptr<float>(), target.data_ptr<float>(), partial.data_ptr<float>(), B, N, M, (float)kappa);
    reduce_quantiles<<<(B + 31) / 32, 32, 0, stream>>>(partial.data_ptr<float>(), out.data_ptr<float>(), B, N);
    return out;
}
"""

qr = load_inline(
    name="qr_loss",
    cpp_sources="torch::Tensor qr_loss(torch::Tensor pred, torch::Tensor target, double kappa);",
    cuda_sources=cuda_src,
    functions=["qr_loss"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super(ModelNew, self).__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return qr.qr_loss(predicted.contiguous(), target.contiguous(), self.kappa)
