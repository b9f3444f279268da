# about = "The map into the state and the map out of it are read in each other's place."
# section = "mismatch"
# problem = "ssm_decode_step"
# causes = ["operands-swapped", "weights-swapped", "layout-misread"]
# says = ["swap|exchang|each other|enter|leave|in place of|order|split|layout|interchang|mixed up"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

struct Sizes { int width, states, rank, taps; };

__global__ void front(Sizes z, const float* x, float* window, const float* cw, const float* cb, float* u) {
    int c = threadIdx.x, n = blockIdx.x;
    if (c >= z.width) return;
    float* w = window + (n * z.width + c) * z.taps;
    float sum = 0.0f;
    for (int k = 0; k < z.taps - 1; k++) {
        w[k] = w[k + 1];
        sum += w[k] * cw[c * z.taps + k];
    }
    w[z.taps - 1] = x[n * z.width + c];
    sum += w[z.taps - 1] * cw[c * z.taps + z.taps - 1] + cb[c];
    u[n * z.width + c] = sum / (1.0f + expf(-sum));
}

__global__ void back(Sizes z, const float* u, const float* gate, const float* p, const float* dw, const float* db, const float* a_log,
                     const float* skip, float* state, float* y) {
    __shared__ float low[64];
    __shared__ float C[64];
    __shared__ float B[64];
    int n = blockIdx.x, tid = threadIdx.x;
    const float* un = u + n * z.width;
    for (int r = tid; r < z.rank + 2 * z.states; r += blockDim.x) {
        float sum = 0.0f;
        for (int c = 0; c < z.width; c++) sum += un[c] * p[r * z.width + c];
        if (r < z.rank) low[r] = sum;
        else if (r < z.rank + z.states) C[r - z.rank] = sum;
        else B[r - z.rank - z.states] = sum;
    }
    __syncthreads();
    if (tid < z.width) {
        float dt = db[tid];
        for (int r = 0; r < z.rank; r++) dt += low[r] * dw[tid * z.rank + r];
        dt = dt > 20.0f ? dt : logf(1.0f + expf(dt));
        float sum = 0.0f;
        for (int s = 0; s < z.states; s++) {
            float A = -expf(a_log[tid * z.states + s]);
            float h = state[(n * z.width + tid) * z.states + s];
            h = h * expf(dt * A) + dt * B[s] * un[tid];
            state[(n * z.width + tid) * z.states + s] = h;
            sum += h * C[s];
        }
        float g = gate[n * z.width + tid];
        y[n * z.width + tid] = (sum + skip[tid] * un[tid]) * (g / (1.0f + expf(-g)));
    }
}

torch::Tensor mamba_step(torch::Tensor x, torch::Tensor gate, torch::Tensor window, torch::Tensor state, torch::Tensor cw,
                         torch::Tensor cb, torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip) {
    Sizes z{(int)x.size(1), (int)state.size(2), (int)dw.size(1), (int)cw.size(1)};
    auto u = torch::empty_like(x);
    auto y = torch::empty_like(x);
    int batch = x.size(0);
    front<<<batch, 32>>>(z, x.data_ptr<float>(), window.data_ptr<float>(), cw.data_ptr<float>(), cb.data_ptr<float>(), u.data_ptr<float>());
    back<<<batch, 32>>>(z, u.data_ptr<float>(), gate.data_ptr<float>(), p.data_ptr<float>(), dw.data_ptr<float>(), db.data_ptr<float>(),
                        a_log.data_ptr<float>(), skip.data_ptr<float>(), state.data_ptr<float>(), y.data_ptr<float>());
    return y;
}
"""

cpp_source = """
torch::Tensor mamba_step(torch::Tensor x, torch::Tensor gate, torch::Tensor window, torch::Tensor state, torch::Tensor cw,
                         torch::Tensor cb, torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip);
"""

mamba = load_inline(name="mamba_step", cpp_sources=[cpp_source], cuda_sources=[cuda_source], functions=["mamba_step"])


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
        y = mamba.mamba_step(x, z, window, state, self.conv_weight, self.conv_bias, self.project, self.step_weight,
                             self.step_bias, self.a_log, self.skip)
        return y, window, state
