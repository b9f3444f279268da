# about = "A right answer: a stable merge sort of places with runs that double, then a copy of rows."
# section = "right"
# problem = "sort_rows_by_key"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="merged_rows",
    cpp_sources="torch::Tensor order_rows(torch::Tensor keys, torch::Tensor features);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int MOST = 128;

// Every element finds its place in the merged pair of runs by a search in the other run.
__global__ void order_kernel(const float* keys, int* order, int n) {
    __shared__ float key[2][MOST];
    __shared__ int place[2][MOST];
    int b = blockIdx.x, t = threadIdx.x, now = 0;
    if (t < n) {
        key[0][t] = keys[b * n + t];
        place[0][t] = t;
    }
    __syncthreads();
    for (int run = 1; run < n; run *= 2) {
        if (t < n) {
            int pair = t / (2 * run) * 2 * run, middle = min(n, pair + run), end = min(n, pair + 2 * run);
            bool left = t < middle;
            int low = left ? middle : pair, high = left ? end : middle, begin = low;
            float mine = key[now][t];
            while (low < high) {
                int half = (low + high) / 2;
                bool before = left ? key[now][half] > mine : key[now][half] >= mine;
                if (before) low = half + 1; else high = half;
            }
            int to = (left ? t : pair + t - middle) + (low - begin);
            key[1 - now][to] = mine;
            place[1 - now][to] = place[now][t];
        }
        now = 1 - now;
        __syncthreads();
    }
    if (t < n) order[b * n + t] = place[now][t];
}

__global__ void copy_kernel(const float* features, const int* order, float* y, int n, int width) {
    int i = blockIdx.x, b = blockIdx.y;
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        y[((long)b * n + i) * width + c] = features[((long)b * n + order[b * n + i]) * width + c];
}

torch::Tensor order_rows(torch::Tensor keys, torch::Tensor features) {
    int batch = keys.size(0), n = keys.size(1), width = features.size(2);
    TORCH_CHECK(n <= MOST, "too long");
    auto stream = at::cuda::getCurrentCUDAStream();
    auto order = torch::empty({batch, n}, keys.options().dtype(torch::kInt32));
    auto y = torch::empty_like(features);
    order_kernel<<<batch, MOST, 0, stream>>>(keys.data_ptr<float>(), order.data_ptr<int>(), n);
    copy_kernel<<<dim3(n, batch), 32, 0, stream>>>(features.data_ptr<float>(), order.data_ptr<int>(),
        y.data_ptr<float>(), n, width);
    return y;
}
""",
    functions=["order_rows"],
)


class ModelNew(nn.Module):
    def forward(self, keys, features):
        return ext.order_rows(keys.contiguous(), features.contiguous())
