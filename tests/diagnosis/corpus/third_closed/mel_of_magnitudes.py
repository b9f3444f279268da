# about = "The bands sum the magnitudes of the spectrum, where the reference sums its power."
# section = "mismatch"
# problem = "log_mel_frames"
# causes = ["square-omitted", "wrong-norm-order", "operator-missing", "operator-doubled"]
# says = ["squar|root|power|magnitude|norm|missing|absolute"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

#define PI 3.14159265358979f

// One block per frame: windowed samples, spectrum and bands in shared memory.
__global__ void mel_kernel(const float* signal, const float* filters, float* energy, int samples, int frames, int size, int hop, int bins,
                           int bands) {
    extern __shared__ float sh[];
    float* piece = sh;
    float* spectrum = sh + size;
    const int f = blockIdx.x, b = blockIdx.y, tid = threadIdx.x;
    for (int n = tid; n < size; n += blockDim.x)
        piece[n] = signal[b * samples + f * hop + n] * (0.5f - 0.5f * cosf(2.f * PI * n / size));
    __syncthreads();
    for (int k = tid; k < bins; k += blockDim.x) {
        float re = 0.f, im = 0.f;
        for (int n = 0; n < size; ++n) {
            float s, c;
            sincosf(2.f * PI * (k * n % size) / size, &s, &c);
            re += piece[n] * c;
            im -= piece[n] * s;
        }
        spectrum[k] = sqrtf(re * re + im * im);
    }
    __syncthreads();
    for (int m = tid; m < bands; m += blockDim.x) {
        float e = 0.f;
        for (int k = 0; k < bins; ++k) e += spectrum[k] * filters[m * bins + k];
        energy[(b * frames + f) * bands + m] = logf(fmaxf(e, 1e-5f));
    }
}

__global__ void centre_kernel(float* energy, int frames, int bands) {
    const int b = blockIdx.x, m = threadIdx.x;
    if (m >= bands) return;
    float* p = energy + b * frames * bands + m;
    float sum = 0.f;
    for (int f = 0; f < frames; ++f) sum += p[f * bands];
    sum /= frames;
    for (int f = 0; f < frames; ++f) p[f * bands] -= sum;
}

torch::Tensor mel(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop) {
    const int batch = signal.size(0), samples = signal.size(1), bands = filters.size(0), bins = filters.size(1);
    const int frames = (samples - size) / hop + 1;
    auto energy = torch::empty({batch, frames, bands}, signal.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    mel_kernel<<<dim3(frames, batch), 32, (size + bins) * sizeof(float), stream>>>(
        signal.data_ptr<float>(), filters.data_ptr<float>(), energy.data_ptr<float>(), samples, frames, size, hop, bins, bands);
    centre_kernel<<<batch, 32, 0, stream>>>(energy.data_ptr<float>(), frames, bands);
    return energy;
}
"""

mel_ext = load_inline(
    name="mel_frames",
    cpp_sources="torch::Tensor mel(torch::Tensor signal, torch::Tensor filters, int64_t size, int64_t hop);",
    cuda_sources=source,
    functions=["mel"],
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        return mel_ext.mel(signal.contiguous(), self.filters, self.frame, self.hop)
