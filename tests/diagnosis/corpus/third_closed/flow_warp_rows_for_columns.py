# about = "The first component of the flow moves the rows and the second the columns; it is the other way round."
# section = "mismatch"
# problem = "flow_warp"
# causes = ["coordinates-swapped", "wrong-channel", "layout-misread", "operands-swapped"]
# says = ["swap|exchang|axes|axis|each other|x and y|channel|component|coordinate|order|transpos"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void warp_kernel(const float* image, const float* flow, const float* target, float* warped, float* error, float* inside,
                            float eps, int B, int C, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * H * W) return;
    int w = idx % W;
    int h = (idx / W) % H;
    int b = idx / (W * H);
    float sy = h + flow[((b * 2 + 0) * H + h) * W + w];
    float sx = w + flow[((b * 2 + 1) * H + h) * W + w];
    int x0 = (int)floorf(sx), y0 = (int)floorf(sy);
    float fx = sx - x0, fy = sy - y0;
    float total = 0.0f;
    for (int c = 0; c < C; c++) {
        const float* p = image + (b * C + c) * H * W;
        float v = 0.0f;
        for (int dy = 0; dy < 2; dy++) {
            for (int dx = 0; dx < 2; dx++) {
                int yy = y0 + dy, xx = x0 + dx;
                if (yy >= 0 && yy < H && xx >= 0 && xx < W)
                    v += p[yy * W + xx] * (dy ? fy : 1.0f - fy) * (dx ? fx : 1.0f - fx);
            }
        }
        int at = ((b * C + c) * H + h) * W + w;
        warped[at] = v;
        float d = v - target[at];
        total += sqrtf(d * d + eps * eps);
    }
    bool in = sx >= 0 && sx <= W - 1 && sy >= 0 && sy <= H - 1;
    inside[idx] = in ? 1.0f : 0.0f;
    error[idx] = in ? total / C : 0.0f;
}

__global__ void reduce_kernel(const float* error, const float* inside, float* loss, int size) {
    __shared__ float e[256], n[256];
    int tid = threadIdx.x;
    e[tid] = 0.0f;
    n[tid] = 0.0f;
    for (int i = tid; i < size; i += blockDim.x) {
        e[tid] += error[blockIdx.x * size + i];
        n[tid] += inside[blockIdx.x * size + i];
    }
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (tid < s) {
            e[tid] += e[tid + s];
            n[tid] += n[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) loss[blockIdx.x] = e[0] / fmaxf(n[0], 1.0f);
}

std::vector<torch::Tensor> flow_warp(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps) {
    int B = image.size(0), C = image.size(1), H = image.size(2), W = image.size(3);
    auto warped = torch::empty_like(image);
    auto error = torch::empty({B, H, W}, image.options());
    auto inside = torch::empty({B, H, W}, image.options());
    auto loss = torch::empty({B}, image.options());
    int total = B * H * W;
    warp_kernel<<<(total + 127) / 128, 128>>>(image.data_ptr<float>(), flow.data_ptr<float>(), target.data_ptr<float>(),
        warped.data_ptr<float>(), error.data_ptr<float>(), inside.data_ptr<float>(), (float)eps, B, C, H, W);
    reduce_kernel<<<B, 256>>>(error.data_ptr<float>(), inside.data_ptr<float>(), loss.data_ptr<float>(), H * W);
    return {warped, loss};
}
"""

warp = load_inline(
    name="flow_warp",
    cpp_sources="std::vector<torch::Tensor> flow_warp(torch::Tensor image, torch::Tensor flow, torch::Tensor target, double eps);",
    cuda_sources=cuda_source,
    functions=["flow_warp"],
)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, image, flow, target):
        warped, loss = warp.flow_warp(image.contiguous(), flow.contiguous(), target.contiguous(), self.eps)
        return warped, loss
