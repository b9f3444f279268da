# about = "The weighted loss is divided by the number of kept rows, not by the sum of the weights of their labels."
# section = "mismatch"
# problem = "entropy_z_loss"
# causes = ["wrong-divisor", "weight-ignored", "weight-wrong-place"]
# says = ["divi|weight|count|normal"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void cross_entropy_z(const float* logits, const int64_t* targets, const float* weight, float* out, int n, int classes,
                                int64_t ignore_index, float eps, float z) {
    __shared__ float s_loss[256], s_z[256];
    __shared__ int s_count[256];
    float loss = 0.f, zsum = 0.f;
    int count = 0;
    // Each thread handles whole rows.
    for (int row = threadIdx.x; row < n; row += blockDim.x) {
        int64_t t = targets[row];
        if (t == ignore_index) continue;
        const float* x = logits + row * classes;
        float m = x[0];
        for (int c = 1; c < classes; c++) m = fmaxf(m, x[c]);
        float s = 0.f;
        for (int c = 0; c < classes; c++) s += expf(x[c] - m);
        float lse = logf(s) + m;
        float smooth = 0.f;
        for (int c = 0; c < classes; c++) smooth -= weight[c] * (x[c] - lse);
        loss += (1.f - eps) * weight[t] * (lse - x[t]) + eps / classes * smooth;
        zsum += lse * lse;
        count++;
    }
    s_loss[threadIdx.x] = loss;
    s_z[threadIdx.x] = zsum;
    s_count[threadIdx.x] = count;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x; i++) {
            loss += s_loss[i];
            zsum += s_z[i];
            count += s_count[i];
        }
        out[0] = loss / count + z * zsum / count;
    }
}

torch::Tensor cross_entropy_z_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor weight, int64_t ignore_index,
                                   double eps, double z) {
    auto out = torch::zeros({1}, logits.options());
    int n = targets.numel();
    cross_entropy_z<<<1, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        logits.data_ptr<float>(), targets.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(), n,
        logits.numel() / n, ignore_index, (float)eps, (float)z);
    return out.squeeze();
}
"""

ce = load_inline(
    name="cross_entropy_z",
    cpp_sources="torch::Tensor cross_entropy_z_cuda(torch::Tensor logits, torch::Tensor targets, torch::Tensor weight, int64_t ignore_index, double eps, double z);",
    cuda_sources=source,
    functions=["cross_entropy_z_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, smoothing, ignored, penalty):
        super().__init__()
        self.smoothing = smoothing
        self.ignored = ignored
        self.penalty = penalty

    def forward(self, logits, targets, weight):
        return ce.cross_entropy_z_cuda(
            logits.contiguous(), targets.contiguous(), weight.contiguous(), self.ignored, self.smoothing, self.penalty
        )
