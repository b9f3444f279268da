# about = "The rates are taken from their logarithms without the exponential."
# section = "mismatch"
# problem = "ssm_decode_step"
# causes = ["wrong-decay", "operator-missing", "activation-missing"]
# says = ["exp|decay|a_log|rate|logarithm|operator|step"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ inline float sigmoid(float v) { return 1.f / (1.f + expf(-v)); }

// one block for one sample; everything between the two convolutions stays in shared memory
__global__ void ssm_step(const float* x, const float* z, float* window, float* state, const float* cw, const float* cb, const float* p,
                         const float* dw, const float* db, const float* a_log, const float* skip, float* y,
                         int width, int states, int rank, int taps) {
    extern __shared__ float smem[];
    float* u = smem;
    float* proj = smem + width;
    const int n = blockIdx.x;
    const int rows = rank + 2 * states;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float* line = window + (n * width + c) * taps;
        float acc = cb[c];
        for (int k = 0; k < taps; ++k) {
            const float v = k + 1 < taps ? line[k + 1] : x[n * width + c];
            line[k] = v;
            acc = fmaf(v, cw[c * taps + k], acc);
        }
        u[c] = acc * sigmoid(acc);
    }
    __syncthreads();
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        float acc = 0.f;
        for (int c = 0; c < width; ++c) acc = fmaf(u[c], p[r * width + c], acc);
        proj[r] = acc;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float dt = db[c];
        for (int r = 0; r < rank; ++r) dt = fmaf(proj[r], dw[c * rank + r], dt);
        dt = dt > 20.f ? dt : log1pf(expf(dt));
        float* h = state + (n * width + c) * states;
        float acc = skip[c] * u[c];
        for (int s = 0; s < states; ++s) {
            const float decay = expf(-dt * a_log[c * states + s]);
            h[s] = decay * h[s] + dt * u[c] * proj[rank + s];
            acc = fmaf(h[s], proj[rank + states + s], acc);
        }
        const float g = z[n * width + c];
        y[n * width + c] = acc * g * sigmoid(g);
    }
}

torch::Tensor ssm(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, std::vector<torch::Tensor> w) {
    auto y = torch::empty_like(x);
    const int width = x.size(1), states = state.size(2), taps = window.size(2), rank = w[3].size(1);
    ssm_step<<<x.size(0), 32, (width + rank + 2 * states) * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), z.data_ptr<float>(), window.data_ptr<float>(), state.data_ptr<float>(), w[0].data_ptr<float>(),
        w[1].data_ptr<float>(), w[2].data_ptr<float>(), w[3].data_ptr<float>(), w[4].data_ptr<float>(), w[5].data_ptr<float>(),
        w[6].data_ptr<float>(), y.data_ptr<float>(), width, states, rank, taps);
    return y;
}
"""

ext = load_inline(
    "ssm_one_block",
    cpp_sources="torch::Tensor ssm(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, std::vector<torch::Tensor> w);",
    cuda_sources=SRC,
    functions=["ssm"],
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
        y = ext.ssm(x.contiguous(), z.contiguous(), window, state, weights)
        return y, window, state
