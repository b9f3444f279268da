# about = "The penalty on the normaliser is the mean over all rows, those of the ignored label too."
# section = "mismatch"
# problem = "entropy_z_loss"
# causes = ["ignored-class-counted", "mask-ignored", "wrong-divisor"]
# says = ["ignor|mask|kept|count|divi|row|valid"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// One warp per row writes (weighted nll, smoothed part, weight, penalty); a last block adds them up.
__global__ void row_kernel(const float* logits, const int64_t* targets, const float* weight, float4* rows, int n, int classes,
                           int64_t ignored) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= n) return;
    const float* p = logits + (size_t)row * classes;
    float top = -INFINITY;
    for (int c = lane; c < classes; c += 32) top = fmaxf(top, p[c]);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    float sum = 0.f;
    for (int c = lane; c < classes; c += 32) sum += expf(p[c] - top);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float lse = top + logf(sum);
    float smooth = 0.f;
    for (int c = lane; c < classes; c += 32) smooth += weight[c] * (lse - p[c]);
    for (int o = 16; o > 0; o >>= 1) smooth += __shfl_xor_sync(0xffffffffu, smooth, o);
    if (lane == 0) {
        const int64_t t = targets[row];
        float4 r = make_float4(0.f, 0.f, 0.f, lse * lse);
        if (t != ignored) {
            r.x = weight[t] * (lse - p[t]);
            r.y = smooth / classes;
            r.z = weight[t];
        }
        rows[row] = r;
    }
}

__global__ void total_kernel(const float4* rows, float* loss, int n, float smoothing, float penalty) {
    __shared__ float4 part[64];
    float4 s = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int i = threadIdx.x; i < n; i += 64) {
        s.x += rows[i].x; s.y += rows[i].y; s.z += rows[i].z; s.w += rows[i].w;
    }
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k) {
            float4 o = part[threadIdx.x + k];
            part[threadIdx.x].x += o.x; part[threadIdx.x].y += o.y; part[threadIdx.x].z += o.z; part[threadIdx.x].w += o.w;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        s = part[0];
        *loss = ((1.f - smoothing) * s.x + smoothing * s.y) / s.z + penalty * s.w / n;
    }
}

torch::Tensor z_loss(torch::Tensor logits, torch::Tensor targets, torch::Tensor weight, double smoothing, int64_t ignored,
                     double penalty) {
    const int n = targets.numel(), classes = logits.size(-1);
    auto rows = torch::empty({n, 4}, logits.options());
    auto loss = torch::empty({}, logits.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    row_kernel<<<(n + 3) / 4, dim3(32, 4), 0, stream>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                                        reinterpret_cast<float4*>(rows.data_ptr<float>()), n, classes, ignored);
    total_kernel<<<1, 64, 0, stream>>>(reinterpret_cast<float4*>(rows.data_ptr<float>()), loss.data_ptr<float>(), n, smoothing, penalty);
    return loss;
}
"""

ext = load_inline(
    name="z_loss_rows",
    cpp_sources="torch::Tensor z_loss(torch::Tensor logits, torch::Tensor targets, torch::Tensor weight, double smoothing, int64_t ignored, double penalty);",
    cuda_sources=SRC,
    functions=["z_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, smoothing, ignored, penalty):
        super().__init__()
        self.smoothing, self.ignored, self.penalty = smoothing, ignored, penalty

    def forward(self, logits, targets, weight):
        return ext.z_loss(logits.contiguous(), targets.contiguous(), weight, self.smoothing, self.ignored, self.penalty)
