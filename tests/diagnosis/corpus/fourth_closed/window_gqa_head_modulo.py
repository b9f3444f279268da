# about = "A query head takes the keys and values of the group h modulo the groups, not of h divided by the heads in a group."
# section = "mismatch"
# problem = "window_gqa_rotary"
# causes = ["wrong-channel", "groups-ignored", "index-ignored", "layout-misread", "wrong-axis", "wrong-index-base", "transposed-operand"]
# says = ["head|group|key|channel|ind"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float warp_max(float v) {
    #pragma unroll
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
    #pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__device__ __forceinline__ float rotated(const float* row, int d, int width, int place, float base) {
    const int half = width / 2;
    const int j = d < half ? d : d - half;
    const float angle = place * powf(base, -(float)j / half);
    return d < half ? row[d] * cosf(angle) - row[d + half] * sinf(angle)
                    : row[d] * cosf(angle) + row[d - half] * sinf(angle);
}

// grid (steps, heads, batch), one warp per query; lane j owns the key that lies j behind
__global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                       float* __restrict__ y, int groups, int steps, int width, int window, float base) {
    extern __shared__ float smem[];
    float* query = smem;
    float* weight = smem + width;
    const int i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, heads = gridDim.y, lane = threadIdx.x;
    const int g = h % groups;
    const float* keys = k + (size_t)(b * groups + g) * steps * width;
    const float* values = v + (size_t)(b * groups + g) * steps * width;
    const float* row = q + (size_t)((b * heads + h) * steps + i) * width;
    for (int d = lane; d < width; d += 32) query[d] = rotated(row, d, width, i, base);
    __syncwarp();
    const int j = i - lane;
    float s = -INFINITY;
    if (lane < window && j >= 0) {
        s = 0.f;
        for (int d = 0; d < width; ++d) s += query[d] * rotated(keys + j * width, d, width, j, base);
        s /= sqrtf((float)width);
    }
    const float top = warp_max(s);
    const float e = expf(s - top);
    weight[lane] = e / warp_sum(e);
    __syncwarp();
    for (int d = lane; d < width; d += 32) {
        float sum = 0.f;
        for (int n = 0; n < window && n <= i; ++n) sum += weight[n] * values[(i - n) * width + d];
        y[((size_t)(b * steps + i) * heads + h) * width + d] = sum;
    }
}

torch::Tensor attend_window(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window, double base) {
    TORCH_CHECK(window <= 32);
    const int batch = q.size(0), heads = q.size(1), steps = q.size(2), width = q.size(3);
    auto y = torch::empty({batch, steps, heads * width}, q.options());
    attend<<<dim3(steps, heads, batch), 32, (width + 32) * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>(), k.size(1), steps, width,
        window, base);
    return y;
}
"""

ops = load_inline(
    name="attend_window",
    cpp_sources="torch::Tensor attend_window(torch::Tensor, torch::Tensor, torch::Tensor, int64_t, double);",
    cuda_sources=SOURCE,
    functions=["attend_window"],
)


class ModelNew(nn.Module):
    def __init__(self, window, base):
        super().__init__()
        self.window, self.base = window, base

    def forward(self, q, k, v):
        return ops.attend_window(q.contiguous(), k.contiguous(), v.contiguous(), self.window, self.base)
