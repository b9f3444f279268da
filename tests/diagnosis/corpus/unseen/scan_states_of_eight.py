# about = "The shared array has room for eight states and the layer has twelve."
# section = "run"
# problem = "selective_scan"
# causes = ["shared-out-of-bounds-write", "shared-out-of-bounds-read", "array-index-out-of-bounds", "hard-coded-size"]
# says = ["shared|bounds|outside|array|size|8|index"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

scan_source = r"""
#include <torch/extension.h>

#define STATES 8

// a block per (sample, channel), a thread per state
__global__ void selective_scan_kernel(const float* __restrict__ x, const float* __restrict__ step,
                                      const float* __restrict__ decay, const float* __restrict__ enter,
                                      const float* __restrict__ leave, const float* __restrict__ skip,
                                      float* __restrict__ y, int steps, int width) {
    __shared__ float terms[STATES];
    const int d = blockIdx.x, b = blockIdx.y, s = threadIdx.x, states = blockDim.x;
    const float a = decay[d * states + s];
    float state = 0.f;
    for (int t = 0; t < steps; ++t) {
        const int at = (b * steps + t) * width + d;
        const float raw = step[at];
        const float dt = raw > 20.f ? raw : log1pf(expf(raw));
        const int row = (b * steps + t) * states + s;
        state = expf(dt * a) * state + dt * x[at] * enter[row];
        terms[s] = state * leave[row];
        __syncthreads();
        if (s == 0) {
            float sum = skip[d] * x[at];
            for (int k = 0; k < states; ++k) sum += terms[k];
            y[at] = sum;
        }
        __syncthreads();
    }
}

torch::Tensor selective_scan(torch::Tensor x, torch::Tensor step, torch::Tensor decay, torch::Tensor enter,
                             torch::Tensor leave, torch::Tensor skip) {
    auto y = torch::empty_like(x);
    dim3 grid(x.size(2), x.size(0));
    selective_scan_kernel<<<grid, decay.size(1)>>>(x.data_ptr<float>(), step.data_ptr<float>(),
        decay.data_ptr<float>(), enter.data_ptr<float>(), leave.data_ptr<float>(), skip.data_ptr<float>(),
        y.data_ptr<float>(), x.size(1), x.size(2));
    return y;
}
"""

scan = load_inline(
    name="selective_scan",
    cpp_sources="torch::Tensor selective_scan(torch::Tensor x, torch::Tensor step, torch::Tensor decay, torch::Tensor enter, torch::Tensor leave, torch::Tensor skip);",
    cuda_sources=scan_source,
    functions=["selective_scan"],
)


class ModelNew(nn.Module):
    def forward(self, x, step, decay, enter, leave, skip):
        tensors = (t.contiguous() for t in (x, step, decay, enter, leave, skip))
        return scan.selective_scan(*tensors)
