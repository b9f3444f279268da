# about = "Negatives are weighted with alpha as well; the reference gives them 1 - alpha."
# section = "mismatch"
# problem = "focal_loss"
# causes = ["weight-wrong-place", "wrong-coefficient", "weights-swapped", "weight-ignored", "wrong-divisor", "scale-missing"]
# says = ["alpha|weight|negativ|share|1 -|factor|coefficient|complement"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

focal_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void focal_partial_kernel(const float* __restrict__ logits, const float* __restrict__ target,
                                     float* __restrict__ loss_part, float* __restrict__ pos_part, int n,
                                     float alpha, float gamma) {
    __shared__ float loss_s[128];
    __shared__ float pos_s[128];
    float loss = 0.0f, positives = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float x = logits[i], t = target[i];
        float p = 1.0f / (1.0f + expf(-x));
        float bce = fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x)));
        float p_t = p * t + (1.0f - p) * (1.0f - t);
        loss += alpha * powf(1.0f - p_t, gamma) * bce;
        positives += t;
    }
    loss_s[threadIdx.x] = loss;
    pos_s[threadIdx.x] = positives;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) {
            loss_s[threadIdx.x] += loss_s[threadIdx.x + s];
            pos_s[threadIdx.x] += pos_s[threadIdx.x + s];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        loss_part[blockIdx.x] = loss_s[0];
        pos_part[blockIdx.x] = pos_s[0];
    }
}

__global__ void focal_final_kernel(const float* loss_part, const float* pos_part, float* out, int blocks) {
    float loss = 0.0f, positives = 0.0f;
    for (int i = 0; i < blocks; ++i) {
        loss += loss_part[i];
        positives += pos_part[i];
    }
    out[0] = loss / fmaxf(positives, 1.0f);
}

torch::Tensor focal_loss_cuda(torch::Tensor logits, torch::Tensor target, double alpha, double gamma) {
    const int n = logits.numel();
    const int blocks = 3;
    auto lp = torch::empty({blocks}, logits.options());
    auto pp = torch::empty({blocks}, logits.options());
    auto out = torch::empty({}, logits.options());
    focal_partial_kernel<<<blocks, 128>>>(logits.data_ptr<float>(), target.data_ptr<float>(), lp.data_ptr<float>(),
                                          pp.data_ptr<float>(), n, (float)alpha, (float)gamma);
    focal_final_kernel<<<1, 1>>>(lp.data_ptr<float>(), pp.data_ptr<float>(), out.data_ptr<float>(), blocks);
    return out;
}
"""

focal_ext = load_inline(
    name="focal_ext",
    cpp_sources="torch::Tensor focal_loss_cuda(torch::Tensor logits, torch::Tensor target, double alpha, double gamma);",
    cuda_sources=focal_source,
    functions=["focal_loss_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, logits, target):
        return focal_ext.focal_loss_cuda(logits.contiguous(), target.contiguous(), self.alpha, self.gamma)
