# about = "The window is the symmetric one, with the size less one in the cosine; the reference's is periodic."
# section = "mismatch"
# problem = "log_mel_frames"
# causes = ["wrong-coefficient", "wrong-divisor", "index-off-by-one", "wrong-coordinate", "align-corners", "hard-coded-size"]
# says = ["window|coefficient|divi|n - 1|off by one|one less|coordinate|position|period|symmetric|factor|weight"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

// cosine and sine tables with the window folded in: [bins][size]
__global__ void basis_kernel(float* re, float* im, int bins, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= bins * size) return;
    const int k = i / size, n = i % size;
    const double tau = 6.283185307179586;
    const double window = 0.5 * (1.0 - cos(tau * n / (size - 1)));
    re[i] = (float)(window * cos(tau * k * n / size));
    im[i] = (float)(window * sin(tau * k * n / size));
}

__global__ void power_kernel(const float* x, const float* re, const float* im, float* power, int samples, int frames, int hop, int bins,
                             int size) {
    const int row = blockIdx.x, k = threadIdx.x;
    if (k >= bins) return;
    const float* piece = x + row / frames * samples + row % frames * hop;
    float a = 0.f, b = 0.f;
    for (int n = 0; n < size; ++n) {
        a = fmaf(piece[n], re[k * size + n], a);
        b = fmaf(piece[n], im[k * size + n], b);
    }
    power[row * bins + k] = a * a + b * b;
}

// A warp for a band of a sample: lanes are frames.
__global__ void band_kernel(const float* power, const float* filters, float* y, int frames, int bins, int bands) {
    const int b = blockIdx.y, m = blockIdx.x, f = threadIdx.x;
    float e = 0.f;
    if (f < frames) {
        for (int k = 0; k < bins; ++k) e += power[(b * frames + f) * bins + k] * filters[m * bins + k];
        e = logf(fmaxf(e, 1e-5f));
    }
    float mean = e;
    for (int o = 16; o > 0; o >>= 1) mean += __shfl_xor_sync(0xffffffffu, mean, o);
    if (f < frames) y[(b * frames + f) * bands + m] = e - mean / frames;
}

torch::Tensor log_mel(torch::Tensor x, torch::Tensor filters, int64_t size, int64_t hop) {
    const int batch = x.size(0), samples = x.size(1), bands = filters.size(0), bins = filters.size(1);
    const int frames = (samples - (int)size) / (int)hop + 1;
    TORCH_CHECK(frames <= 32 && bins <= 32, "short signals only");
    auto re = torch::empty({bins, size}, x.options()), im = torch::empty({bins, size}, x.options());
    auto power = torch::empty({batch * frames, bins}, x.options()), y = torch::empty({batch, frames, bands}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    basis_kernel<<<(bins * size + 63) / 64, 64, 0, stream>>>(re.data_ptr<float>(), im.data_ptr<float>(), bins, size);
    power_kernel<<<batch * frames, 32, 0, stream>>>(x.data_ptr<float>(), re.data_ptr<float>(), im.data_ptr<float>(), power.data_ptr<float>(),
                                                    samples, frames, hop, bins, size);
    band_kernel<<<dim3(bands, batch), 32, 0, stream>>>(power.data_ptr<float>(), filters.data_ptr<float>(), y.data_ptr<float>(), frames, bins,
                                                       bands);
    return y;
}
"""
ext = load_inline(
    name="log_mel_basis",
    cpp_sources="torch::Tensor log_mel(torch::Tensor x, torch::Tensor filters, int64_t size, int64_t hop);",
    cuda_sources=CUDA,
    functions=["log_mel"],
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        return ext.log_mel(signal.contiguous(), self.filters, self.frame, self.hop)
