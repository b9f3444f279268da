# about = "Right: the power of each bin by Goertzel's recursion in double precision, the mean by a running one."
# section = "right"
# problem = "log_mel_frames"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

constexpr double TURN = 6.283185307179586476925;

__global__ void goertzel(const float* signal, double* power, int samples, int frames, int size, int hop, int bins, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int k = i % bins, f = i / bins % frames, b = i / (bins * frames);
    const float* x = signal + b * samples + f * hop;
    const double twice = 2 * cos(TURN * k / size);
    double one = 0, two = 0;
    for (int n = 0; n < size; ++n) {
        const double s = sin(TURN / 2 * n / size);
        const double next = x[n] * s * s + twice * one - two;
        two = one;
        one = next;
    }
    power[i] = one * one + two * two - twice * one * two;
}

__global__ void bands_of(const double* power, const float* filters, float* y, int frames, int bins, int bands) {
    const int b = blockIdx.x, m = threadIdx.x;
    if (m >= bands) return;
    double mean = 0;
    for (int f = 0; f < frames; ++f) {
        double e = 0;
        for (int k = 0; k < bins; ++k) e += power[(b * frames + f) * bins + k] * filters[m * bins + k];
        e = log(fmax(e, 1e-5));
        mean += (e - mean) / (f + 1);
        y[(b * frames + f) * bands + m] = (float)e;
    }
    for (int f = 0; f < frames; ++f) y[(b * frames + f) * bands + m] -= (float)mean;
}

torch::Tensor log_mel(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop) {
    const int batch = signal.size(0), samples = signal.size(1), bands = filters.size(0), bins = filters.size(1);
    const int frames = (samples - size) / hop + 1, total = batch * frames * bins;
    auto power = torch::empty({batch, frames, bins}, signal.options().dtype(torch::kFloat64));
    auto y = torch::empty({batch, frames, bands}, signal.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    goertzel<<<(total + 63) / 64, 64, 0, stream>>>(signal.data_ptr<float>(), power.data_ptr<double>(), samples, frames, size, hop, bins, total);
    bands_of<<<batch, 32, 0, stream>>>(power.data_ptr<double>(), filters.data_ptr<float>(), y.data_ptr<float>(), frames, bins, bands);
    return y;
}
"""
ext = load_inline(
    name="goertzel",
    cpp_sources="torch::Tensor log_mel(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop);",
    cuda_sources=SRC,
    functions=["log_mel"],
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        return ext.log_mel(signal.contiguous(), self.filters, self.frame, self.hop)
