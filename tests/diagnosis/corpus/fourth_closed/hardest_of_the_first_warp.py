# about = "A lane looks at one row alone, so that the rows from 32 on are never candidates."
# section = "mismatch"
# problem = "batch_hard_triplet"
# causes = ["lost-lanes", "lost-last-block", "hard-coded-size", "partial-sums-not-combined", "last-element-left-out"]
# says = ["lane|warp|32|rows|part|last|stride|first"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

triplet_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void row_norm_kernel(const float* x, float* unit, int rows, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float ss = 0.0f;
    for (int d = 0; d < width; d++) ss += x[r * width + d] * x[r * width + d];
    float inv = 1.0f / fmaxf(sqrtf(ss), 1e-12f);
    for (int d = 0; d < width; d++) unit[r * width + d] = x[r * width + d] * inv;
}

// one warp per anchor
__global__ void hardest_kernel(const float* __restrict__ unit, const int64_t* __restrict__ label, float* __restrict__ positive,
                               float* __restrict__ negative, float* __restrict__ sums, int rows, int width, float margin) {
    int anchor = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (anchor >= rows) return;
    float hp = 0.0f;
    float hn = INFINITY;
    int found = 0;
    for (int j = lane; j < min(rows, 32); j += 32) {
        float d2 = 0.0f;
        for (int d = 0; d < width; d++) {
            float t = unit[anchor * width + d] - unit[j * width + d];
            d2 += t * t;
        }
        float dist = sqrtf(fmaxf(d2, 1e-12f));
        if (label[j] == label[anchor]) {
            if (j != anchor) {
                hp = fmaxf(hp, dist);
                found = 1;
            }
        } else {
            hn = fminf(hn, dist);
        }
    }
    for (int o = 16; o > 0; o >>= 1) {
        hp = fmaxf(hp, __shfl_xor_sync(0xffffffff, hp, o));
        hn = fminf(hn, __shfl_xor_sync(0xffffffff, hn, o));
    }
    found = __any_sync(0xffffffff, found);
    if (lane == 0) {
        positive[anchor] = hp;
        negative[anchor] = hn;
        if (found) {
            atomicAdd(&sums[0], fmaxf(hp - hn + margin, 0.0f));
            atomicAdd(&sums[1], 1.0f);
        }
    }
}

__global__ void mean_kernel(const float* sums, float* loss) {
    loss[0] = sums[0] / sums[1];
}

std::vector<torch::Tensor> hard_triplet(torch::Tensor x, torch::Tensor label, double margin) {
    int rows = x.size(0), width = x.size(1);
    auto unit = torch::empty_like(x);
    auto positive = torch::empty({rows}, x.options());
    auto negative = torch::empty({rows}, x.options());
    auto sums = torch::zeros({2}, x.options());
    auto loss = torch::empty({}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    row_norm_kernel<<<(rows + 31) / 32, 32, 0, stream>>>(x.data_ptr<float>(), unit.data_ptr<float>(), rows, width);
    hardest_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(unit.data_ptr<float>(), label.data_ptr<int64_t>(),
        positive.data_ptr<float>(), negative.data_ptr<float>(), sums.data_ptr<float>(), rows, width, (float)margin);
    mean_kernel<<<1, 1, 0, stream>>>(sums.data_ptr<float>(), loss.data_ptr<float>());
    return {loss, positive, negative};
}
"""

triplet = load_inline(
    name="hard_triplet",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> hard_triplet(torch::Tensor x, torch::Tensor label, double margin);",
    cuda_sources=triplet_src,
    functions=["hard_triplet"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, x, label):
        loss, positive, negative = triplet.hard_triplet(x.contiguous(), label.contiguous(), self.margin)
        return loss, positive, negative
