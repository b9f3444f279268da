# about = "Only the real part of the spectrum enters the power, and the mean over time is not taken off."
# section = "mismatch"
# problem = "log_mel_frames"
# faults = [{causes = ["operator-missing", "partial-sums-not-combined", "lost-channels", "lost-lanes", "square-omitted"], says = ["real|imag|sine|cosine|part|power|missing|sum|half|lost|left out|not all|squar"]}, {causes = ["mean-not-subtracted", "operator-missing", "bias-missing"], says = ["mean|centr|subtract|missing|left out"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>
#define TWO_PI 6.2831853071795864f

__global__ void spectrum(const float* x, float* power, int L, int F, int N, int hop, int K, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int k = i % K;
    int f = (i / K) % F;
    int b = i / (K * F);
    float acc = 0.0f;
    for (int n = 0; n < N; n++) {
        float w = 0.5f * (1.0f - cosf(TWO_PI * n / N));
        acc += x[b * L + f * hop + n] * w * cosf(TWO_PI * ((k * n) % N) / N);
    }
    power[i] = acc * acc;
}

__global__ void mel_bands(const float* power, const float* filters, float* out, int rows, int K, int M) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || row >= rows) return;
    float e = 0.0f;
    for (int k = 0; k < K; k++) e += power[row * K + k] * filters[m * K + k];
    out[row * M + m] = logf(fmaxf(e, 1e-5f));
}

torch::Tensor features(torch::Tensor x, torch::Tensor filters, int64_t N, int64_t hop) {
    int B = x.size(0), L = x.size(1), M = filters.size(0), K = filters.size(1), F = (L - N) / hop + 1;
    auto power = torch::empty({B, F, K}, x.options());
    auto out = torch::empty({B, F, M}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    spectrum<<<(B * F * K + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), power.data_ptr<float>(), L, F, N, hop, K, B * F * K);
    mel_bands<<<dim3((M + 7) / 8, (B * F + 7) / 8), dim3(8, 8), 0, stream>>>(power.data_ptr<float>(), filters.data_ptr<float>(),
                                                                             out.data_ptr<float>(), B * F, K, M);
    return out;
}
"""
ops = load_inline(
    name="mel_features",
    cpp_sources="torch::Tensor features(torch::Tensor x, torch::Tensor filters, int64_t N, int64_t hop);",
    cuda_sources=source,
    functions=["features"],
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        return ops.features(signal.contiguous(), self.filters, self.frame, self.hop)
