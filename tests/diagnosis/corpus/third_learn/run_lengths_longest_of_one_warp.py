# about = "The longest run of a row is that of the steps which the first warp saw."
# section = "mismatch"
# problem = "run_lengths"
# causes = ["partial-sums-not-combined", "lost-lanes", "lost-last-block"]
# says = ["warp|partial|lane|combin|block|32|thread|part of"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

template <typename T>
__device__ T warp_max(T v) {
    #pragma unroll
    for (int o = 16; o > 0; o /= 2) {
        T w = __shfl_down_sync(0xffffffff, v, o);
        v = w > v ? w : v;
    }
    return v;
}

__global__ void stay_kernel(const float* x, float* y, int64_t* longest, float threshold, int steps) {
    extern __shared__ int start_of[];
    const int row = blockIdx.x;
    const int t = threadIdx.x;
    const float* in = x + row * steps;
    // positions of the turns, then a running maximum of them
    if (t < steps) start_of[t] = (t == 0 || (in[t] > threshold) != (in[t - 1] > threshold)) ? t : 0;
    __syncthreads();
    for (int o = 1; o < steps; o *= 2) {
        int other = (t >= o && t < steps) ? start_of[t - o] : 0;
        __syncthreads();
        if (t < steps) start_of[t] = max(start_of[t], other);
        __syncthreads();
    }
    int length = 0;
    if (t < steps) {
        length = t - start_of[t] + 1;
        y[row * steps + t] = in[t] / sqrtf((float)length);
    }
    length = warp_max(length);
    if (t == 0) longest[row] = length;
}

std::vector<torch::Tensor> stays(torch::Tensor x, double threshold) {
    const int rows = x.size(0), steps = x.size(1);
    TORCH_CHECK(steps <= 1024, "one block per row");
    auto y = torch::empty_like(x);
    auto longest = torch::zeros({rows}, x.options().dtype(torch::kInt64));
    const int threads = (steps + 31) / 32 * 32;
    stay_kernel<<<rows, threads, steps * sizeof(int)>>>(x.data_ptr<float>(), y.data_ptr<float>(), longest.data_ptr<int64_t>(), threshold, steps);
    return {y, longest};
}
"""

stays = load_inline(
    name="stays",
    cpp_sources="std::vector<torch::Tensor> stays(torch::Tensor x, double threshold);",
    cuda_sources=source,
    functions=["stays"],
)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        return tuple(stays.stays(x.contiguous(), self.threshold))
