# about = "Right: the average as a scan over linear functions, the peak as a scan of maxima, a block per series."
# section = "right"
# problem = "price_oscillator"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>
#include <tuple>

struct Line { float a, b; };                                   // average -> a * average + b

__device__ Line after(Line first, Line second) { return {second.a * first.a, fmaf(second.a, first.b, second.b)}; }

// One block per series. Range by brute force, the average as a scan of lines, the highest price as a scan of maxima.
__global__ void indicators(const float* high, const float* low, const float* close, float* place, float* line, float* fall,
                           int steps, int span, float smooth) {
    extern __shared__ float memory[];
    Line* lines = reinterpret_cast<Line*>(memory);
    float* peak = memory + 2 * blockDim.x;
    const int t = threadIdx.x;
    const size_t row = (size_t)blockIdx.x * steps;
    float c = 0.f;
    if (t < steps) {
        float top = high[row + t], bottom = low[row + t];
        for (int k = 1; k < span && k <= t; ++k) {
            top = fmaxf(top, high[row + t - k]);
            bottom = fminf(bottom, low[row + t - k]);
        }
        c = close[row + t];
        const float p = (c - bottom) / (top - bottom + 0.01f);
        place[row + t] = p;
        lines[t] = t == 0 ? Line{0.f, p} : Line{1.f - smooth, smooth * p};
        peak[t] = c;
    } else {
        lines[t] = Line{1.f, 0.f};
        peak[t] = -CUDART_INF_F;
    }
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        Line l = lines[t];
        float m = peak[t];
        if (t >= d) {
            l = after(lines[t - d], l);
            m = fmaxf(peak[t - d], m);
        }
        __syncthreads();
        lines[t] = l;
        peak[t] = m;
        __syncthreads();
    }
    if (t < steps) {
        line[row + t] = lines[t].b;
        fall[row + t] = (c - peak[t]) / peak[t];
    }
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> indicate(torch::Tensor high, torch::Tensor low, torch::Tensor close,
                                                                 int64_t span, double smooth) {
    const int series = close.size(0), steps = close.size(1), threads = (steps + 31) / 32 * 32;
    TORCH_CHECK(threads <= 1024, "series too long for one block");
    auto place = torch::empty_like(close), line = torch::empty_like(close), fall = torch::empty_like(close);
    indicators<<<series, threads, 3 * threads * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
        high.data_ptr<float>(), low.data_ptr<float>(), close.data_ptr<float>(), place.data_ptr<float>(), line.data_ptr<float>(),
        fall.data_ptr<float>(), steps, span, smooth);
    return {place, line, fall};
}
"""
CPP = """
#include <tuple>
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> indicate(torch::Tensor high, torch::Tensor low, torch::Tensor close,
                                                                 int64_t span, double smooth);
"""
desk = load_inline(name="indicators", cpp_sources=CPP, cuda_sources=SRC, functions=["indicate"])


class ModelNew(nn.Module):
    def __init__(self, span, smooth):
        super().__init__()
        self.span, self.smooth = span, smooth

    def forward(self, high, low, close):
        return desk.indicate(high.contiguous(), low.contiguous(), close.contiguous(), self.span, self.smooth)
