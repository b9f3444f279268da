# about = "The logarithm is taken of the mean likelihood of the positives; the reference has the mean of their logarithms."
# section = "mismatch"
# problem = "supervised_contrast"
# causes = ["activation-order", "wrong-combine", "log-missing", "mask-wrong-place"]
# says = ["order|log|mean|sum|inside|combin|mask|place"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void supervised_contrastive_kernel(const float* feats, const int64_t* labels, float* out, int n, int dim, float temp) {
    extern __shared__ float anchor[];
    const int i = blockIdx.x;
    const int tid = threadIdx.x;
    __shared__ float red_all[64], red_pos[64], red_n[64];

    for (int d = tid; d < dim; d += blockDim.x) anchor[d] = feats[i * dim + d];
    __syncthreads();
    float anchor_norm = 0.0f;
    for (int d = 0; d < dim; d++) anchor_norm += anchor[d] * anchor[d];
    anchor_norm = fmaxf(sqrtf(anchor_norm), 1e-12f);

    float all = 0.0f, pos = 0.0f, cnt = 0.0f;
    for (int j = tid; j < n; j += blockDim.x) {
        if (j == i) continue;
        float dot = 0.0f, nn = 0.0f;
        for (int d = 0; d < dim; d++) {
            float f = feats[j * dim + d];
            dot += anchor[d] * f;
            nn += f * f;
        }
        float e = expf(dot / (anchor_norm * fmaxf(sqrtf(nn), 1e-12f)) / temp);
        all += e;
        if (labels[j] == labels[i]) {
            pos += e;
            cnt += 1.0f;
        }
    }
    red_all[tid] = all;
    red_pos[tid] = pos;
    red_n[tid] = cnt;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            red_all[tid] += red_all[tid + s];
            red_pos[tid] += red_pos[tid + s];
            red_n[tid] += red_n[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) out[i] = red_n[0] > 0.0f ? -logf(red_pos[0] / red_n[0] / red_all[0]) : 0.0f;
}

torch::Tensor supervised_contrastive(torch::Tensor feats, torch::Tensor labels, double temp) {
    const int n = feats.size(0), dim = feats.size(1);
    auto out = torch::empty({n}, feats.options());
    supervised_contrastive_kernel<<<n, 64, dim * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        feats.data_ptr<float>(), labels.data_ptr<int64_t>(), out.data_ptr<float>(), n, dim, (float)temp);
    return out;
}
"""

sc = load_inline(
    name="supervised_contrastive",
    cpp_sources="torch::Tensor supervised_contrastive(torch::Tensor feats, torch::Tensor labels, double temp);",
    cuda_sources=cuda_source,
    functions=["supervised_contrastive"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super(ModelNew, self).__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        return sc.supervised_contrastive(features.contiguous(), labels.contiguous(), self.temperature)
