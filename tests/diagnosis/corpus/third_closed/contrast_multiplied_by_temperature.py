# about = "The similarities are multiplied by the temperature instead of divided by it."
# section = "mismatch"
# problem = "supervised_contrast"
# causes = ["wrong-divisor", "scale-doubled", "scale-missing", "wrong-coefficient", "wrong-combine"]
# says = ["temperature|scal|divi|factor|multipl|coefficient"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

// scores[i][j] = cosine * temperature
__global__ void cosine(const float* __restrict__ x, float* __restrict__ scores, int n, int w, float temperature) {
    __shared__ float a[8][33], b[8][33];
    const int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    float dot = 0.f, aa = 0.f, bb = 0.f;
    for (int k0 = 0; k0 < w; k0 += 8) {
        const int ka = k0 + threadIdx.x;
        const int jb = blockIdx.x * 8 + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = i < n && ka < w ? x[i * w + ka] : 0.f;
        b[threadIdx.y][threadIdx.x] = jb < n && ka < w ? x[jb * w + ka] : 0.f;
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float u = a[threadIdx.y][k], v = b[threadIdx.x][k];
            dot += u * v;
            aa += u * u;
            bb += v * v;
        }
        __syncthreads();
    }
    if (i < n && j < n) scores[i * n + j] = dot / (fmaxf(sqrtf(aa), 1e-12f) * fmaxf(sqrtf(bb), 1e-12f)) * temperature;
}

__global__ void contrast(const float* scores, const int64_t* labels, float* loss, int n) {
    const int i = blockIdx.x, lane = threadIdx.x;
    float top = -INFINITY;
    for (int j = lane; j < n; j += 32)
        if (j != i) top = fmaxf(top, scores[i * n + j]);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    float sum = 0.f, same = 0.f;
    int count = 0;
    for (int j = lane; j < n; j += 32) {
        if (j == i) continue;
        sum += expf(scores[i * n + j] - top);
        if (labels[j] == labels[i]) {
            same += scores[i * n + j];
            ++count;
        }
    }
    for (int o = 16; o > 0; o >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
        same += __shfl_xor_sync(0xffffffffu, same, o);
        count += __shfl_xor_sync(0xffffffffu, count, o);
    }
    if (lane == 0) loss[i] = count > 0 ? top + logf(sum) - same / count : 0.f;
}

torch::Tensor contrastive(torch::Tensor x, torch::Tensor labels, double temperature) {
    const int n = x.size(0), w = x.size(1), tiles = (n + 7) / 8;
    auto scores = torch::empty({n, n}, x.options());
    auto loss = torch::empty({n}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    cosine<<<dim3(tiles, tiles), dim3(8, 8), 0, stream>>>(x.data_ptr<float>(), scores.data_ptr<float>(), n, w, temperature);
    contrast<<<n, 32, 0, stream>>>(scores.data_ptr<float>(), labels.data_ptr<int64_t>(), loss.data_ptr<float>(), n);
    return loss;
}
"""
ext = load_inline(
    name="contrast_tiles",
    cpp_sources="torch::Tensor contrastive(torch::Tensor x, torch::Tensor labels, double temperature);",
    cuda_sources=CUDA,
    functions=["contrastive"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        return ext.contrastive(features.contiguous(), labels.contiguous(), self.temperature)
