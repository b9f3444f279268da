# about = "A warp of 32 reads each frame of 30 samples unchecked, so that the last frame of the last signal reads past its end."
# section = "run"
# problem = "log_mel_frames"
# causes = ["global-out-of-bounds-read", "illegal-address"]
# says = ["bounds|past|beyond|outside|end|illegal|out of"]
# stage = ["run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void frame_energies(const float* __restrict__ signal, const float* __restrict__ filters, float* __restrict__ out, int samples,
                               int frames, int size, int hop, int bins, int bands) {
    __shared__ float x[32];
    __shared__ float p[32];
    const int f = blockIdx.x, b = blockIdx.y, t = threadIdx.x;
    x[t] = signal[b * samples + f * hop + t] * (0.5f - 0.5f * cospif(2.f * t / size));
    __syncwarp();
    float re = 0.f, im = 0.f;
    for (int n = 0; n < size; ++n) {
        const float phase = 2.f * ((t * n) % size) / size;
        re += x[n] * cospif(phase);
        im += x[n] * sinpif(phase);
    }
    p[t] = re * re + im * im;
    __syncwarp();
    if (t < bands) {
        float e = 0.f;
        for (int k = 0; k < bins; ++k) e += p[k] * filters[t * bins + k];
        out[(b * frames + f) * bands + t] = logf(fmaxf(e, 1e-5f));
    }
}

__global__ void subtract_mean(const float* in, float* out, int frames, int bands, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int m = i % bands, b = i / (bands * frames);
    float s = 0.f;
    for (int f = 0; f < frames; ++f) s += in[(b * frames + f) * bands + m];
    out[i] = in[i] - s / frames;
}

torch::Tensor log_mel_cuda(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop) {
    const int batch = signal.size(0), samples = signal.size(1), bands = filters.size(0), bins = filters.size(1);
    const int frames = (samples - size) / hop + 1, total = batch * frames * bands;
    TORCH_CHECK(size <= 32 && bins <= 32 && bands <= 32, "one warp per frame");
    auto energy = torch::empty({batch, frames, bands}, signal.options());
    auto out = torch::empty_like(energy);
    auto stream = at::cuda::getCurrentCUDAStream();
    frame_energies<<<dim3(frames, batch), 32, 0, stream>>>(signal.data_ptr<float>(), filters.data_ptr<float>(), energy.data_ptr<float>(),
                                                           samples, frames, size, hop, bins, bands);
    subtract_mean<<<(total + 127) / 128, 128, 0, stream>>>(energy.data_ptr<float>(), out.data_ptr<float>(), frames, bands, total);
    return out;
}
"""

lm = load_inline(
    name="log_mel_warp",
    cpp_sources="torch::Tensor log_mel_cuda(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop);",
    cuda_sources=cuda_source,
    functions=["log_mel_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop, bands):
        super(ModelNew, self).__init__()
        self.frame = frame
        self.hop = hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        return lm.log_mel_cuda(signal.contiguous(), self.filters.contiguous(), self.frame, self.hop)
