# about = "A right answer: a half warp for each point, its lanes over the centroids, and the smaller index of a tie."
# section = "right"
# problem = "nearest_centroid"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="nearest_lanes",
    cpp_sources="std::vector<torch::Tensor> nearest(torch::Tensor x, torch::Tensor centroids);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int LANES = 16;

__global__ void nearest_kernel(const float* x, const float* centroids, float* value, int64_t* index, int points,
                               int count, int width) {
    extern __shared__ float table[];
    for (int i = threadIdx.x; i < count * width; i += blockDim.x) table[i] = centroids[i];
    __syncthreads();
    int p = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    float best = INFINITY;
    int which = count;
    if (p < points) {
        for (int c = lane; c < count; c += LANES) {
            float sum = 0.f;
            for (int d = width - 1; d >= 0; --d) {
                float gap = table[c * width + d] - x[(long)p * width + d];
                sum = fmaf(gap, gap, sum);
            }
            if (sum < best) {
                best = sum;
                which = c;
            }
        }
    }
    for (int o = LANES / 2; o > 0; o /= 2) {
        float other = __shfl_xor_sync(0xffffffff, best, o, LANES);
        int its = __shfl_xor_sync(0xffffffff, which, o, LANES);
        if (other < best || (other == best && its < which)) {
            best = other;
            which = its;
        }
    }
    if (p < points && lane == 0) {
        value[p] = best;
        index[p] = which;
    }
}

std::vector<torch::Tensor> nearest(torch::Tensor x, torch::Tensor centroids) {
    int points = x.size(0), count = centroids.size(0), width = x.size(1);
    auto value = torch::empty({points}, x.options());
    auto index = torch::empty({points}, x.options().dtype(torch::kInt64));
    int threads = 96, each = threads / LANES;
    nearest_kernel<<<(points + each - 1) / each, threads, count * width * sizeof(float),
        at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), centroids.data_ptr<float>(),
        value.data_ptr<float>(), index.data_ptr<int64_t>(), points, count, width);
    return {value, index};
}
""",
    functions=["nearest"],
)


class ModelNew(nn.Module):
    def __init__(self, centroids, width):
        super().__init__()
        self.centroids = nn.Parameter(torch.randn(centroids, width))

    def forward(self, x):
        value, index = ext.nearest(x.contiguous(), self.centroids)
        return value, index
