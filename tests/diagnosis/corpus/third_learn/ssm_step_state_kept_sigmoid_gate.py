# about = "The new state is used and never written back, and the gate is a sigmoid where the reference has SiLU."
# section = "mismatch"
# problem = "ssm_decode_step"
# faults = [{causes = ["state-not-updated", "state-order"], says = ["state|update|written|kept|unchanged|output 2|in place"]}, {causes = ["wrong-activation", "operator-missing", "scale-missing", "activation-missing"], says = ["sigmoid|silu|swish|activation|gate|factor"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = """
#include <torch/extension.h>

__device__ float sigm(float v) { return 1.0f / (1.0f + expf(-v)); }

__global__ void fused(const float* __restrict__ x, const float* __restrict__ z, float* window, float* state,
                      const float* __restrict__ cw, const float* __restrict__ cb, const float* __restrict__ p,
                      const float* __restrict__ dw, const float* __restrict__ db, const float* __restrict__ a_log,
                      const float* __restrict__ skip, float* y, int D, int N, int R, int K) {
    extern __shared__ float sh[];
    int b = blockIdx.x;
    int d = threadIdx.x;

    float conv = cb[d];
    for (int k = 0; k < K - 1; k++) {
        float v = window[(b * D + d) * K + k + 1];
        window[(b * D + d) * K + k] = v;
        conv += v * cw[d * K + k];
    }
    window[(b * D + d) * K + K - 1] = x[b * D + d];
    conv += x[b * D + d] * cw[d * K + K - 1];
    float u = conv * sigm(conv);
    sh[d] = u;
    __syncthreads();

    float dt = db[d];
    for (int r = 0; r < R; r++) {
        float low = 0.0f;
        for (int j = 0; j < D; j++) low += sh[j] * p[r * D + j];
        dt += low * dw[d * R + r];
    }
    dt = dt > 20.f ? dt : log1pf(expf(dt));

    float out = skip[d] * u;
    for (int n = 0; n < N; n++) {
        float bn = 0.0f, cn = 0.0f;
        for (int j = 0; j < D; j++) {
            bn += sh[j] * p[(R + n) * D + j];
            cn += sh[j] * p[(R + N + n) * D + j];
        }
        float h = state[(b * D + d) * N + n];
        h = expf(-dt * expf(a_log[d * N + n])) * h + dt * u * bn;
        out += h * cn;
    }
    float gz = z[b * D + d];
    y[b * D + d] = out * sigm(gz);
}

torch::Tensor fused_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw,
                         torch::Tensor cb, torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip) {
    auto y = torch::empty_like(x);
    int D = x.size(1);
    fused<<<x.size(0), D, D * sizeof(float)>>>(x.data_ptr<float>(), z.data_ptr<float>(), window.data_ptr<float>(),
        state.data_ptr<float>(), cw.data_ptr<float>(), cb.data_ptr<float>(), p.data_ptr<float>(), dw.data_ptr<float>(),
        db.data_ptr<float>(), a_log.data_ptr<float>(), skip.data_ptr<float>(), y.data_ptr<float>(), D, state.size(2), dw.size(1),
        window.size(2));
    return y;
}
"""

fused = load_inline(
    name="fused_step",
    cpp_sources="torch::Tensor fused_step(torch::Tensor x, torch::Tensor z, torch::Tensor window, torch::Tensor state, torch::Tensor cw, torch::Tensor cb, torch::Tensor p, torch::Tensor dw, torch::Tensor db, torch::Tensor a_log, torch::Tensor skip);",
    cuda_sources=src,
    functions=["fused_step"],
)


class ModelNew(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        self.conv_weight = nn.Parameter(torch.randn(width, taps))
        self.conv_bias = nn.Parameter(torch.randn(width))
        self.project = nn.Parameter(torch.randn(rank + 2 * states, width))
        self.step_weight = nn.Parameter(torch.randn(width, rank))
        self.step_bias = nn.Parameter(torch.randn(width))
        self.a_log = nn.Parameter(torch.rand(width, states))
        self.skip = nn.Parameter(torch.randn(width))

    def forward(self, x, z, window, state):
        y = fused.fused_step(x.contiguous(), z.contiguous(), window, state, self.conv_weight, self.conv_bias, self.project,
                             self.step_weight, self.step_bias, self.a_log, self.skip)
        return y, window, state
