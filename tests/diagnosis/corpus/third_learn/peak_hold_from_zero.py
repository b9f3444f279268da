# about = "The maximum begins at zero, and all levels lie below it."
# section = "mismatch"
# problem = "peak_hold"
# causes = ["reduction-start-value", "wrong-initial-state", "constant-output"]
# says = ["start|init|begin|FLT_MIN|zero| 0|identity|constant"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cfloat>

struct Peak {
    float value;
    int place;
};

__device__ __forceinline__ Peak later(const Peak a, const Peak b) { return b.value >= a.value ? b : a; }

__global__ void peaks(const float* x, float* held, long* place, float log_fade, int rows, int steps, int channels) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const int b = row / channels, c = row % channels, lane = threadIdx.x;
    Peak carry{FLT_MIN, 0};
    for (int base = 0; base < steps; base += 32) {
        const int t = base + lane;
        const int at = (b * steps + min(t, steps - 1)) * channels + c;
        Peak p{t < steps ? x[at] : -FLT_MAX, t};
        for (int d = 1; d < 32; d *= 2) {
            Peak q;
            q.value = __shfl_up_sync(0xffffffff, p.value, d);
            q.place = __shfl_up_sync(0xffffffff, p.place, d);
            if (lane >= d) p = later(q, p);
        }
        p = later(carry, p);
        if (t < steps) {
            held[at] = p.value * expf(log_fade * (t - p.place));
            place[at] = p.place;
        }
        carry.value = __shfl_sync(0xffffffff, p.value, 31);
        carry.place = __shfl_sync(0xffffffff, p.place, 31);
    }
}

std::vector<torch::Tensor> peak_scan(torch::Tensor x, double fade) {
    auto held = torch::empty_like(x);
    auto place = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    const int rows = x.size(0) * x.size(2);
    peaks<<<(rows + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), held.data_ptr<float>(), (long*)place.data_ptr<int64_t>(),
                                           logf((float)fade), rows, x.size(1), x.size(2));
    return {held, place};
}
"""

scan = load_inline(
    name="peak_scan",
    cpp_sources="std::vector<torch::Tensor> peak_scan(torch::Tensor x, double fade);",
    cuda_sources=source,
    functions=["peak_scan"],
)


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        a, b = scan.peak_scan(x.contiguous(), self.fade)
        return a, b
