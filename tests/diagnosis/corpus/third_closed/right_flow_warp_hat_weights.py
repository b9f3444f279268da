# about = "Right: every pixel of the image is weighted by a hat around the place; a second kernel scores by warps."
# section = "right"
# problem = "flow_warp"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float hat(float d) { return fmaxf(0.f, 1.f - fabsf(d)); }

__global__ void by_hats(const float* __restrict__ image, const float* __restrict__ flow, float* __restrict__ warped, int C, int H, int W, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int p = i % (H * W), b = i / (H * W * C);
        const float x = p % W + flow[(size_t)b * 2 * H * W + p], y = p / W + flow[((size_t)b * 2 + 1) * H * W + p];
        const float* plane = image + (size_t)(i - p);
        float v = 0.f;
        for (int r = max(0, (int)floorf(y)); r <= min(H - 1, (int)ceilf(y)); ++r)
            for (int c = max(0, (int)floorf(x)); c <= min(W - 1, (int)ceilf(x)); ++c) v = fmaf(hat(y - r) * hat(x - c), plane[r * W + c], v);
        warped[i] = v;
    }
}

__global__ void score(const float* __restrict__ warped, const float* __restrict__ target, const float* __restrict__ flow,
                      float* __restrict__ loss, float eps, int C, int H, int W) {
    const int b = blockIdx.x, lane = threadIdx.x, area = H * W;
    float sum = 0.f;
    int n = 0;
    for (int p = lane; p < area; p += 32) {
        const float x = p % W + flow[(size_t)b * 2 * area + p], y = p / W + flow[((size_t)b * 2 + 1) * area + p];
        if (x < 0.f || y < 0.f || x > W - 1 || y > H - 1) continue;
        ++n;
        for (int c = 0; c < C; ++c) sum += hypotf(warped[((size_t)b * C + c) * area + p] - target[((size_t)b * C + c) * area + p], eps);
    }
    for (int o = 16; o > 0; o >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, o);
        n += __shfl_down_sync(0xffffffffu, n, o);
    }
    if (lane == 0) loss[b] = n ? sum / ((float)C * n) : 0.f;
}

std::vector<torch::Tensor> hats(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps) {
    auto warped = torch::empty_like(image);
    auto loss = torch::empty({image.size(0)}, image.options());
    auto s = at::cuda::getCurrentCUDAStream();
    const int C = image.size(1), H = image.size(2), W = image.size(3);
    by_hats<<<5, 96, 0, s>>>(image.data_ptr<float>(), flow.data_ptr<float>(), warped.data_ptr<float>(), C, H, W, image.numel());
    score<<<image.size(0), 32, 0, s>>>(warped.data_ptr<float>(), target.data_ptr<float>(), flow.data_ptr<float>(), loss.data_ptr<float>(),
                                       (float)eps, C, H, W);
    return {warped, loss};
}
"""
ext = load_inline("warped_by_hats", cpp_sources="std::vector<torch::Tensor> hats(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps);",
                  cuda_sources=SRC, functions=["hats"])


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, image, flow, target):
        return tuple(ext.hats(image.contiguous(), flow.contiguous(), target.contiguous(), self.eps))
