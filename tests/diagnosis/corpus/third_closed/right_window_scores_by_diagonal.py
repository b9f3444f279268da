# about = "Right: scores are kept by their distance in a band of 2 r + 1 columns, in three kernels."
# section = "right"
# problem = "window_padding_attention"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

struct Shape { int T, H, D, R; };

__device__ const float* part(const float* qkv, Shape s, int b, int t, int which, int h) {
    return qkv + ((size_t)((b * s.T + t) * 3 + which) * s.H + h) * s.D;
}

__global__ void fill_band(const float* qkv, const int64_t* lengths, float* band, Shape s, int total) {
    const int columns = 2 * s.R + 1;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int c = i % columns, h = i / columns % s.H, t = i / columns / s.H % s.T, b = i / columns / s.H / s.T;
        const int key = t + c - s.R;
        float value = -1e30f;
        if (key >= 0 && key < lengths[b]) {
            const float *q = part(qkv, s, b, t, 0, h), *k = part(qkv, s, b, key, 1, h);
            value = 0.f;
            for (int d = 0; d < s.D; ++d) value += q[d] * k[d];
            value /= sqrtf((float)s.D);
        }
        band[i] = value;
    }
}

__global__ void normalise(float* band, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float *p = band + row * columns, top = p[0], sum = 0.f;
    for (int c = 1; c < columns; ++c) top = fmaxf(top, p[c]);
    for (int c = 0; c < columns; ++c) sum += p[c] = expf(p[c] - top);
    for (int c = 0; c < columns; ++c) p[c] /= sum;
}

__global__ void gather(const float* qkv, const int64_t* lengths, const float* band, float* out, Shape s) {
    const int t = blockIdx.x, b = blockIdx.y, h = threadIdx.y, d = threadIdx.x;
    const float* p = band + (size_t)((b * s.T + t) * s.H + h) * (2 * s.R + 1);
    const int length = (int)lengths[b];
    float sum = 0.f;
    if (t < length)
        for (int key = max(t - s.R, 0); key <= min(t + s.R, length - 1); ++key) sum += p[key - t + s.R] * part(qkv, s, b, key, 2, h)[d];
    out[((size_t)(b * s.T + t) * s.H + h) * s.D + d] = sum;
}

torch::Tensor banded(torch::Tensor qkv, torch::Tensor lengths, int64_t radius) {
    const int B = qkv.size(0);
    const Shape s{(int)qkv.size(1), (int)qkv.size(3), (int)qkv.size(4), (int)radius};
    const int rows = B * s.T * s.H, columns = 2 * s.R + 1;
    auto band = torch::empty({rows, columns}, qkv.options());
    auto out = torch::empty({B, s.T, s.H * s.D}, qkv.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    fill_band<<<6, 128, 0, stream>>>(qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(), band.data_ptr<float>(), s, rows * columns);
    normalise<<<(rows + 63) / 64, 64, 0, stream>>>(band.data_ptr<float>(), rows, columns);
    gather<<<dim3(s.T, B), dim3(s.D, s.H), 0, stream>>>(qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(), band.data_ptr<float>(),
                                                       out.data_ptr<float>(), s);
    return out;
}
"""
ext = load_inline(
    name="banded_attention",
    cpp_sources="torch::Tensor banded(torch::Tensor qkv, torch::Tensor lengths, int64_t radius);",
    cuda_sources=SRC,
    functions=["banded"],
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return ext.banded(qkv.contiguous(), lengths.contiguous(), self.radius)
