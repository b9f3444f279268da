# about = "The anchor itself is among the samples that the likelihood is normalised by."
# section = "mismatch"
# problem = "supervised_contrast"
# causes = ["mask-ignored", "mask-shifted", "base-ignored", "constant-added", "mask-wrong-place", "ignored-class-counted", "operator-missing"]
# says = ["mask|self|diagonal|own|itself|denominator|includ|constant|added|exclu"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void normalize_rows(const float* x, float* y, int n, int w) {
    int row = blockIdx.x, lane = threadIdx.x;
    float ss = 0.f;
    for (int i = lane; i < w; i += 32) ss += x[row * w + i] * x[row * w + i];
    for (int o = 16; o; o >>= 1) ss += __shfl_xor_sync(0xffffffff, ss, o);
    float inv = 1.f / fmaxf(sqrtf(ss), 1e-12f);
    for (int i = lane; i < w; i += 32) y[row * w + i] = x[row * w + i] * inv;
}

__global__ void supcon(const float* f, const int64_t* labels, float* loss, int n, int w, float inv_t) {
    __shared__ float sims[128];
    __shared__ float s_sum[128], s_pos[128];
    __shared__ int s_cnt[128];
    int i = blockIdx.x, j = threadIdx.x;
    float sim = 0.f;
    if (j < n) {
        for (int k = 0; k < w; ++k) sim += f[i * w + k] * f[j * w + k];
        sim *= inv_t;
    }
    sims[j] = sim;
    // similarities are at most 1 / t, which serves as the maximum
    s_sum[j] = j < n ? expf(sim - inv_t) : 0.f;
    bool positive = j < n && j != i && labels[j] == labels[i];
    s_pos[j] = positive ? sim : 0.f;
    s_cnt[j] = positive;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (j < s) {
            s_sum[j] += s_sum[j + s];
            s_pos[j] += s_pos[j + s];
            s_cnt[j] += s_cnt[j + s];
        }
        __syncthreads();
    }
    if (j == 0) {
        float lse = logf(s_sum[0]) + inv_t;
        int c = s_cnt[0];
        loss[i] = c ? -(s_pos[0] - c * lse) / c : 0.f;
    }
}

torch::Tensor supcon_loss(torch::Tensor x, torch::Tensor labels, double temperature) {
    int n = x.size(0), w = x.size(1);
    TORCH_CHECK(n <= 128, "at most 128 samples");
    auto f = torch::empty_like(x);
    auto loss = torch::empty({n}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    normalize_rows<<<n, 32, 0, stream>>>(x.data_ptr<float>(), f.data_ptr<float>(), n, w);
    supcon<<<n, 128, 0, stream>>>(f.data_ptr<float>(), labels.data_ptr<int64_t>(), loss.data_ptr<float>(), n, w, 1.f / (float)temperature);
    return loss;
}
"""

supcon = load_inline(
    name="supcon_loss",
    cpp_sources="torch::Tensor supcon_loss(torch::Tensor x, torch::Tensor labels, double temperature);",
    cuda_sources=source,
    functions=["supcon_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        return supcon.supcon_loss(features.contiguous(), labels.contiguous(), self.temperature)
