# about = "The highest price that is carried is that of the chunk just done, and not of all before it."
# section = "mismatch"
# problem = "price_oscillator"
# causes = ["scan-restarts", "partial-sums-not-combined", "state-not-updated", "lost-lanes"]
# says = ["carr|tile|chunk|warp|32|earlier|previous|restart|block|forget|forgot|combin"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

#define TILE 64

// rolling range: a block loads its tile and the span - 1 values before it
__global__ void oscillator_kernel(const float* high, const float* low, const float* close, float* place, int steps, int span) {
    extern __shared__ float shared[];
    float* hi = shared;
    float* lo = shared + TILE + span - 1;
    const int row = blockIdx.y;
    const int first = blockIdx.x * TILE - (span - 1);
    for (int i = threadIdx.x; i < TILE + span - 1; i += blockDim.x) {
        int t = first + i;
        bool inside = t >= 0 && t < steps;
        hi[i] = inside ? high[row * steps + t] : -FLT_MAX;
        lo[i] = inside ? low[row * steps + t] : FLT_MAX;
    }
    __syncthreads();
    const int t = blockIdx.x * TILE + threadIdx.x;
    if (t >= steps) return;
    float top = -FLT_MAX, bottom = FLT_MAX;
    for (int k = 0; k < span; ++k) {
        top = fmaxf(top, hi[threadIdx.x + k]);
        bottom = fminf(bottom, lo[threadIdx.x + k]);
    }
    place[row * steps + t] = (close[row * steps + t] - bottom) / (top - bottom + 0.01f);
}

__global__ void ema_kernel(const float* place, float* line, int rows, int steps, float smooth) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float avg = place[row * steps];
    line[row * steps] = avg;
    for (int t = 1; t < steps; ++t) {
        avg = smooth * place[row * steps + t] + (1.0f - smooth) * avg;
        line[row * steps + t] = avg;
    }
}

// one warp per row; 32 steps at a time, the highest of the earlier ones is carried
__global__ void drawdown_kernel(const float* close, float* out, int steps) {
    const int row = blockIdx.x;
    const int lane = threadIdx.x;
    float carry = -FLT_MAX;
    for (int base = 0; base < steps; base += 32) {
        int t = base + lane;
        float v = t < steps ? close[row * steps + t] : -FLT_MAX;
        float m = v;
        for (int d = 1; d < 32; d <<= 1) {
            float other = __shfl_up_sync(0xffffffff, m, d);
            if (lane >= d) m = fmaxf(m, other);
        }
        float chunk = __shfl_sync(0xffffffff, m, 31);
        m = fmaxf(m, carry);
        if (t < steps) out[row * steps + t] = v / m - 1.0f;
        carry = chunk;
    }
}

std::vector<torch::Tensor> oscillator(torch::Tensor high, torch::Tensor low, torch::Tensor close, int64_t span, double smooth) {
    int rows = close.size(0), steps = close.size(1);
    auto place = torch::empty_like(close);
    auto line = torch::empty_like(close);
    auto fall = torch::empty_like(close);
    auto stream = at::cuda::getCurrentCUDAStream();
    dim3 grid((steps + TILE - 1) / TILE, rows);
    size_t smem = 2 * (TILE + span - 1) * sizeof(float);
    oscillator_kernel<<<grid, TILE, smem, stream>>>(high.data_ptr<float>(), low.data_ptr<float>(), close.data_ptr<float>(),
                                                    place.data_ptr<float>(), steps, (int)span);
    ema_kernel<<<(rows + 31) / 32, 32, 0, stream>>>(place.data_ptr<float>(), line.data_ptr<float>(), rows, steps, (float)smooth);
    drawdown_kernel<<<rows, 32, 0, stream>>>(close.data_ptr<float>(), fall.data_ptr<float>(), steps);
    return {place, line, fall};
}
"""

cpp_source = """
#include <vector>
std::vector<torch::Tensor> oscillator(torch::Tensor high, torch::Tensor low, torch::Tensor close, int64_t span, double smooth);
"""

prices = load_inline(name="oscillator", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["oscillator"])


class ModelNew(nn.Module):
    def __init__(self, span, smooth):
        super().__init__()
        self.span = span
        self.smooth = smooth

    def forward(self, high, low, close):
        place, line, fall = prices.oscillator(high.contiguous(), low.contiguous(), close.contiguous(), self.span, self.smooth)
        return place, line, fall
