# about = "The error is divided by all places of the image and not by those where the flow stays inside."
# section = "mismatch"
# problem = "flow_warp"
# causes = ["wrong-divisor", "mask-ignored", "mask-wrong-place"]
# says = ["divis|divid|count|mask|inside|mean|number"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ float sample(const float* p, float x, float y, int H, int W) {
    int x0 = __float2int_rd(x), y0 = __float2int_rd(y);
    float wx = x - x0, wy = y - y0;
    auto at = [&](int i, int j) { return (i < 0 || i >= H || j < 0 || j >= W) ? 0.f : p[i * W + j]; };
    return (1.f - wy) * ((1.f - wx) * at(y0, x0) + wx * at(y0, x0 + 1)) + wy * ((1.f - wx) * at(y0 + 1, x0) + wx * at(y0 + 1, x0 + 1));
}

__global__ void warp_and_score(const float* image, const float* flow, const float* target, float* warped, float* loss, float eps,
                               int B, int C, int H, int W) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * H * W) return;
    int col = i % W, row = i / W % H, b = i / (H * W);
    float gx = 2.f * (col + flow[(b * 2 * H + row) * W + col]) / (W - 1) - 1.f;
    float gy = 2.f * (row + flow[((b * 2 + 1) * H + row) * W + col]) / (H - 1) - 1.f;
    float x = (gx + 1.f) * 0.5f * (W - 1), y = (gy + 1.f) * 0.5f * (H - 1);
    bool valid = fabsf(gx) <= 1.f && fabsf(gy) <= 1.f;
    float err = 0.f;
    for (int c = 0; c < C; ++c) {
        int o = ((b * C + c) * H + row) * W + col;
        float v = sample(image + (b * C + c) * H * W, x, y, H, W);
        warped[o] = v;
        float diff = v - target[o];
        err += sqrtf(diff * diff + eps * eps);
    }
    if (valid) atomicAdd(&loss[b], err / C / (H * W));
}

std::vector<torch::Tensor> warp_and_score_cuda(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps) {
    int B = image.size(0), C = image.size(1), H = image.size(2), W = image.size(3);
    auto warped = torch::empty_like(image);
    auto loss = torch::zeros({B}, image.options());
    warp_and_score<<<(B * H * W + 63) / 64, 64>>>(image.data_ptr<float>(), flow.data_ptr<float>(), target.data_ptr<float>(),
                                                  warped.data_ptr<float>(), loss.data_ptr<float>(), (float)eps, B, C, H, W);
    return {warped, loss};
}
"""

score = load_inline(
    name="warp_and_score",
    cpp_sources="std::vector<torch::Tensor> warp_and_score_cuda(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps);",
    cuda_sources=source,
    functions=["warp_and_score_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, image, flow, target):
        warped, loss = score.warp_and_score_cuda(image.contiguous(), flow.contiguous(), target.contiguous(), self.eps)
        return warped, loss
