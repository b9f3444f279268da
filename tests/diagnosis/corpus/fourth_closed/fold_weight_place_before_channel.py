# about = "The weight is read with its place in the patch before the channel."
# section = "mismatch"
# problem = "overlap_fold"
# causes = ["layout-misread", "wrong-channel", "transposed-operand", "wrong-axis", "bias-wrong-index", "index-ignored", "transposed-filter", "affine-per-group"]
# says = ["layout|order|channel|transpos|stride|ind|axes|axis|weight|filter|exchang"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <c10/cuda/CUDAStream.h>

// one block per patch: loads it to shared memory, centres it, adds it to its pixels
__global__ void patch(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H, int W) {
    extern __shared__ float p[];
    __shared__ float total;
    const int n = blockIdx.z, r0 = 2 * blockIdx.y - 1, c0 = 2 * blockIdx.x - 1, len = C * 9;
    if (threadIdx.x == 0) total = 0.f;
    __syncthreads();
    float part = 0.f;
    for (int i = threadIdx.x; i < len; i += blockDim.x) {
        const int c = i / 9, r = r0 + i / 3 % 3, q = c0 + i % 3;
        const bool in = r >= 0 && r < H && q >= 0 && q < W;
        p[i] = in ? x[((n * C + c) * H + r) * W + q] : 0.f;
        part += p[i];
    }
    atomicAdd(&total, part);
    __syncthreads();
    const float mean = total / len;
    for (int i = threadIdx.x; i < len; i += blockDim.x) {
        const int c = i / 9, r = r0 + i / 3 % 3, q = c0 + i % 3;
        if (r < 0 || r >= H || q < 0 || q >= W) continue;
        atomicAdd(&y[((n * C + c) * H + r) * W + q], (p[i] - mean) * w[i % 9 * C + c]);
    }
}

// odd places lie in two patches along an axis (one where the next patch is missing), even ones in one
__global__ void share(float* y, int total, int H, int W, int PH, int PW) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int q = i % W, r = i / W % H;
        const int rows = r % 2 ? ((r + 1) / 2 < PH ? 2 : 1) : 1;
        const int cols = q % 2 ? ((q + 1) / 2 < PW ? 2 : 1) : 1;
        y[i] /= rows * cols;
    }
}

torch::Tensor fold_patches(torch::Tensor x, torch::Tensor w) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), PH = (H + 1) / 2, PW = (W + 1) / 2;
    auto y = torch::zeros_like(x);
    auto s = c10::cuda::getCurrentCUDAStream();
    patch<<<dim3(PW, PH, N), 32, C * 9 * sizeof(float), s>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), C, H, W);
    share<<<4, 128, 0, s>>>(y.data_ptr<float>(), (int)y.numel(), H, W, PH, PW);
    return y;
}
"""
m = load_inline("fold_patches", "torch::Tensor fold_patches(torch::Tensor x, torch::Tensor w);", SRC, functions=["fold_patches"])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels * 9) + 0.5)

    def forward(self, x):
        return m.fold_patches(x.contiguous(), self.weight)
