# about = "The convolution sums the window as it was before the new input was put in."
# section = "mismatch"
# problem = "ssm_decode_step"
# causes = ["state-order", "scan-exclusive", "scan-off-by-one", "index-off-by-one", "state-not-updated"]
# says = ["before|after|old|previous|stale|update|window|order|off by one|shift|one step"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void conv_step(const float* x, float* window, const float* w, const float* bias, float* u, int total, int width, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i % width;
    float* line = window + i * taps;
    float sum = bias[c];
    for (int k = 0; k < taps; ++k) sum += line[k] * w[c * taps + k];
    for (int k = 0; k + 1 < taps; ++k) line[k] = line[k + 1];
    line[taps - 1] = x[i];
    u[i] = sum / (1.f + expf(-sum));
}

__global__ void project(const float* u, const float* p, float* out, int batch, int width, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * rows) return;
    int n = i / rows, r = i % rows;
    float sum = 0.f;
    for (int c = 0; c < width; ++c) sum += u[n * width + c] * p[r * width + c];
    out[i] = sum;
}

__global__ void state_step(const float* u, const float* z, const float* proj, const float* dw, const float* db, const float* a_log,
                           const float* skip, float* state, float* y, int total, int width, int states, int rank) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int n = i / width, c = i % width;
    const float* row = proj + n * (rank + 2 * states);
    float dt = db[c];
    for (int r = 0; r < rank; ++r) dt += row[r] * dw[c * rank + r];
    dt = dt > 20.f ? dt : log1pf(expf(dt));
    float acc = 0.f;
    for (int s = 0; s < states; ++s) {
        float h = state[i * states + s] * expf(-dt * expf(a_log[c * states + s])) + dt * u[i] * row[rank + s];
        state[i * states + s] = h;
        acc += h * row[rank + states + s];
    }
    acc += skip[c] * u[i];
    y[i] = acc * z[i] / (1.f + expf(-z[i]));
}

torch::Tensor decode(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw, torch::Tensor cb,
                     torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip) {
    int batch = x.size(0), width = x.size(1), taps = window.size(2), states = state.size(2), rank = dw.size(1);
    int rows = p.size(0), total = batch * width;
    auto u = torch::empty_like(x), y = torch::empty_like(x);
    auto out = torch::empty({batch, rows}, x.options());
    conv_step<<<(total + 63) / 64, 64>>>(x.data_ptr<float>(), window.data_ptr<float>(), cw.data_ptr<float>(), cb.data_ptr<float>(),
                                         u.data_ptr<float>(), total, width, taps);
    project<<<(batch * rows + 63) / 64, 64>>>(u.data_ptr<float>(), p.data_ptr<float>(), out.data_ptr<float>(), batch, width, rows);
    state_step<<<(total + 63) / 64, 64>>>(u.data_ptr<float>(), z.data_ptr<float>(), out.data_ptr<float>(), dw.data_ptr<float>(),
                                          db.data_ptr<float>(), a_log.data_ptr<float>(), skip.data_ptr<float>(), state.data_ptr<float>(),
                                          y.data_ptr<float>(), total, width, states, rank);
    return y;
}
"""

cpp_source = """torch::Tensor decode(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw, torch::Tensor cb,
                     torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip);"""

ops = load_inline(name="ssm_decode", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["decode"])


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
        y = ops.decode(x.contiguous(), z.contiguous(), window, state, self.conv_weight, self.conv_bias, self.project,
                       self.step_weight, self.step_bias, self.a_log, self.skip)
        return y, window, state
