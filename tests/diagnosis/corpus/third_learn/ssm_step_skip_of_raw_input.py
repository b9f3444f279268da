# about = "The skip multiplies the input of the step and not what the convolution made of it."
# section = "mismatch"
# problem = "ssm_decode_step"
# causes = ["residual-wrong-place", "weight-wrong-place", "activation-missing", "operator-missing"]
# says = ["skip|residual|input|activation|silu|place|before|convol|weight|term"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// lanes are the states: one warp for one channel of one sample, the projections are summed by each warp itself
__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

__global__ void convolve(const float* x, float* window, const float* cw, const float* cb, float* u, int width, int taps, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float acc = cb[i % width];
        for (int k = 0; k < taps; ++k) {
            window[i * taps + k] = k == taps - 1 ? x[i] : window[i * taps + k + 1];
            acc += window[i * taps + k] * cw[(i % width) * taps + k];
        }
        u[i] = acc / (1.f + expf(-acc));
    }
}

__global__ void step_kernel(const float* x, const float* u, const float* z, const float* p, const float* dw, const float* db,
                            const float* a_log, const float* skip, float* state, float* y, int width, int states, int rank) {
    const int c = blockIdx.x, n = blockIdx.y, lane = threadIdx.x;
    float mine_in = 0.f, mine_out = 0.f, low = 0.f;
    for (int k = 0; k < width; ++k) {
        const float v = u[n * width + k];
        if (lane < rank) low += v * p[lane * width + k];
        if (lane < states) {
            mine_in += v * p[(rank + lane) * width + k];
            mine_out += v * p[(rank + states + lane) * width + k];
        }
    }
    float dt = warp_sum(lane < rank ? low * dw[c * rank + lane] : 0.f) + db[c];
    dt = fmaxf(dt, 0.f) + log1pf(expf(-fabsf(dt)));
    float part = 0.f;
    if (lane < states) {
        float* h = state + ((size_t)n * width + c) * states + lane;
        const float fresh = *h * expf(-dt * expf(a_log[c * states + lane])) + dt * u[n * width + c] * mine_in;
        *h = fresh;
        part = fresh * mine_out;
    }
    const float sum = warp_sum(part);
    if (lane == 0) {
        const float g = z[n * width + c];
        y[n * width + c] = (sum + skip[c] * x[n * width + c]) * g / (1.f + expf(-g));
    }
}

torch::Tensor selective_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw, torch::Tensor cb,
                             torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip) {
    auto u = torch::empty_like(x), y = torch::empty_like(x);
    cudaStream_t s = at::cuda::getCurrentCUDAStream();
    const int width = x.size(1);
    convolve<<<2, 64, 0, s>>>(x.data_ptr<float>(), window.data_ptr<float>(), cw.data_ptr<float>(), cb.data_ptr<float>(),
                              u.data_ptr<float>(), width, window.size(2), x.numel());
    step_kernel<<<dim3(width, x.size(0)), 32, 0, s>>>(x.data_ptr<float>(), u.data_ptr<float>(), z.data_ptr<float>(), p.data_ptr<float>(),
        dw.data_ptr<float>(), db.data_ptr<float>(), a_log.data_ptr<float>(), skip.data_ptr<float>(), state.data_ptr<float>(),
        y.data_ptr<float>(), width, state.size(2), dw.size(1));
    return y;
}
"""
DECL = """torch::Tensor selective_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw, torch::Tensor cb,
                             torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip);"""
lib = load_inline("selective_step_warps", cpp_sources=DECL, cuda_sources=SRC, functions=["selective_step"])


class ModelNew(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        self.conv_weight = nn.Parameter(torch.empty(width, taps).normal_(0, 0.6))
        self.conv_bias = nn.Parameter(torch.zeros(width))
        self.project = nn.Parameter(torch.empty(rank + 2 * states, width).normal_(0, 0.4))
        self.step_weight = nn.Parameter(torch.empty(width, rank).normal_(0, 0.5))
        self.step_bias = nn.Parameter(torch.zeros(width))
        self.a_log = nn.Parameter(torch.zeros(width, states))
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x, z, window, state):
        w = (self.conv_weight, self.conv_bias, self.project, self.step_weight, self.step_bias, self.a_log, self.skip)
        return lib.selective_step(x, z, window, state, *w), window, state
