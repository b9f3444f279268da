# about = "The pair itself is left out of the sums of exponentials."
# section = "mismatch"
# problem = "info_nce"
# causes = ["mask-wrong-place", "mask-shifted", "operator-missing"]
# says = ["mask|diagonal|own|left out|missing|positive|itself|exclu"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// scores[i][j] = cos(a_i, b_j) / temperature
__global__ void cosine_scores(const float* a, const float* b, float* scores, int n, int d, float inv_t) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n) return;
    float ab = 0.f, aa = 0.f, bb = 0.f;
    for (int k = 0; k < d; ++k) {
        float x = a[i * d + k], y = b[j * d + k];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    scores[i * n + j] = ab / (fmaxf(sqrtf(aa), 1e-12f) * fmaxf(sqrtf(bb), 1e-12f)) * inv_t;
}

// One warp does row i and column i.
__global__ void row_and_column(const float* scores, float* losses, int n) {
    int i = blockIdx.x, lane = threadIdx.x;
    float rm = -INFINITY, cm = -INFINITY;
    for (int j = lane; j < n; j += 32) {
        rm = fmaxf(rm, scores[i * n + j]);
        cm = fmaxf(cm, scores[j * n + i]);
    }
    for (int o = 16; o; o >>= 1) {
        rm = fmaxf(rm, __shfl_xor_sync(~0u, rm, o));
        cm = fmaxf(cm, __shfl_xor_sync(~0u, cm, o));
    }
    float rs = 0.f, cs = 0.f;
    for (int j = lane; j < n; j += 32) {
        if (j != i) rs += expf(scores[i * n + j] - rm);
        if (j != i) cs += expf(scores[j * n + i] - cm);
    }
    for (int o = 16; o; o >>= 1) {
        rs += __shfl_xor_sync(~0u, rs, o);
        cs += __shfl_xor_sync(~0u, cs, o);
    }
    float own = scores[i * n + i];
    if (lane == 0) losses[i] = 0.5f * (rm + logf(rs) - own + cm + logf(cs) - own);
}

__global__ void mean_kernel(const float* losses, float* out, int n) {
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) s += losses[i];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x == 0) out[0] = s / n;
}

torch::Tensor contrastive(torch::Tensor a, torch::Tensor b, double temperature) {
    int n = a.size(0), d = a.size(1);
    auto scores = torch::empty({n, n}, a.options());
    auto losses = torch::empty({n}, a.options());
    auto out = torch::empty({}, a.options());
    cosine_scores<<<dim3((n + 63) / 64, n), 64>>>(a.data_ptr<float>(), b.data_ptr<float>(), scores.data_ptr<float>(), n, d, 1.f / (float)temperature);
    row_and_column<<<n, 32>>>(scores.data_ptr<float>(), losses.data_ptr<float>(), n);
    mean_kernel<<<1, 32>>>(losses.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

ext = load_inline("contrastive_module", ["torch::Tensor contrastive(torch::Tensor a, torch::Tensor b, double temperature);"], [SOURCE], functions=["contrastive"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        return ext.contrastive(a.contiguous(), b.contiguous(), self.temperature)
