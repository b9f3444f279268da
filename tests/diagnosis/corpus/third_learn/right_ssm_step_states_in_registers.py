# about = "Right: a block for each sample, states in registers through a template, weights read through the cache."
# section = "right"
# problem = "ssm_decode_step"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

template <int MAX_STATES>
__global__ void ssm_block(const float* x, const float* z, float* window, float* state, const float* cw, const float* cb, const float* p,
                          const float* dw, const float* db, const float* a_log, const float* skip, float* y,
                          int width, int states, int rank, int taps) {
    extern __shared__ float smem[];
    float* u = smem;
    float* proj = u + width;
    const int n = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    if (threadIdx.x < width) {
        const int c = threadIdx.x;
        float* line = window + ((size_t)n * width + c) * taps;
        float acc = 0.f;
        for (int k = 1; k < taps; ++k) {
            const float v = line[k];
            line[k - 1] = v;
            acc += v * __ldg(cw + c * taps + k - 1);
        }
        const float fresh = x[n * width + c];
        line[taps - 1] = fresh;
        acc += fresh * __ldg(cw + c * taps + taps - 1) + cb[c];
        u[c] = acc / (1.f + expf(-acc));
    }
    __syncthreads();
    for (int r = warp; r < rank + 2 * states; r += warps) {
        float v = 0.f;
        for (int c = lane; c < width; c += 32) v += u[c] * __ldg(p + r * width + c);
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
        if (lane == 0) proj[r] = v;
    }
    __syncthreads();
    if (threadIdx.x < width) {
        const int c = threadIdx.x;
        float dt = db[c];
        for (int r = 0; r < rank; ++r) dt += proj[r] * dw[c * rank + r];
        dt = dt > 20.f ? dt : log1pf(expf(dt));
        float h[MAX_STATES];
        float* mem = state + ((size_t)n * width + c) * states;
        #pragma unroll
        for (int s = 0; s < MAX_STATES; ++s) h[s] = s < states ? mem[s] : 0.f;
        float acc = skip[c] * u[c];
        #pragma unroll
        for (int s = 0; s < MAX_STATES; ++s) {
            if (s < states) {
                h[s] = h[s] * expf(-expf(a_log[c * states + s]) * dt) + dt * u[c] * proj[rank + s];
                acc += h[s] * proj[rank + states + s];
                mem[s] = h[s];
            }
        }
        const float g = z[n * width + c];
        y[n * width + c] = acc * (g / (1.f + expf(-g)));
    }
}

torch::Tensor ssm_block_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, std::vector<torch::Tensor> w) {
    const int width = x.size(1), states = state.size(2), taps = window.size(2), rank = w[3].size(1);
    TORCH_CHECK(states <= 16 && width <= 64, "sizes are out of the kernel's range");
    auto y = torch::empty_like(x);
    ssm_block<16><<<x.size(0), 64, sizeof(float) * (width + rank + 2 * states), c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), z.data_ptr<float>(), window.data_ptr<float>(), state.data_ptr<float>(), w[0].data_ptr<float>(),
        w[1].data_ptr<float>(), w[2].data_ptr<float>(), w[3].data_ptr<float>(), w[4].data_ptr<float>(), w[5].data_ptr<float>(),
        w[6].data_ptr<float>(), y.data_ptr<float>(), width, states, rank, taps);
    return y;
}
"""

ext = load_inline(
    "ssm_block_step",
    cpp_sources="torch::Tensor ssm_block_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, std::vector<torch::Tensor> w);",
    cuda_sources=SRC,
    functions=["ssm_block_step"],
)


class ModelNew(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        self.conv_weight = nn.Parameter(torch.randn(width, taps) * 0.6)
        self.conv_bias = nn.Parameter(torch.randn(width) * 0.3)
        self.project = nn.Parameter(torch.randn(rank + 2 * states, width) * 0.4)
        self.step_weight = nn.Parameter(torch.randn(width, rank) * 0.5)
        self.step_bias = nn.Parameter(torch.randn(width) * 0.5)
        self.a_log = nn.Parameter(torch.rand(width, states) * 1.5 - 0.3)
        self.skip = nn.Parameter(torch.randn(width))

    def forward(self, x, z, window, state):
        weights = [self.conv_weight, self.conv_bias, self.project, self.step_weight, self.step_bias, self.a_log, self.skip]
        y = ext.ssm_block_step(x.contiguous(), z.contiguous(), window, state, weights)
        return y, window, state
