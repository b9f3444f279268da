# about = "The experts use SiLU where the reference has GELU, and the token itself is not added."
# section = "mismatch"
# problem = "moe_top_two"
# faults = [{causes = ["wrong-activation", "gelu-tanh-for-erf", "wrong-slope"], says = ["gelu|silu|swish|activation|function|erf|sigmoid"]}, {causes = ["residual-missing", "operator-missing"], says = ["residual|input|add|missing|left out|skip|token"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void gate_kernel(const float* x, const float* wg, int* idx, float* gate, int N, int E, int W) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float v0 = -1e30f, v1 = -1e30f;
    int i0 = -1, i1 = -1;
    for (int e = 0; e < E; e++) {
        float s = 0.0f;
        for (int w = 0; w < W; w++) s += x[n * W + w] * wg[e * W + w];
        if (s > v0) {
            v1 = v0; i1 = i0;
            v0 = s; i0 = e;
        } else if (s > v1) {
            v1 = s; i1 = e;
        }
    }
    float e1 = expf(v1 - v0);
    idx[n * 2] = i0;
    idx[n * 2 + 1] = i1;
    gate[n * 2] = 1.0f / (1.0f + e1);
    gate[n * 2 + 1] = e1 / (1.0f + e1);
}

__global__ void up_kernel(const float* x, const float* up, const int* idx, float* hid, int N, int W, int H) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * 2 * H) return;
    int h = i % H, slot = i / H, n = slot / 2;
    const float* u = up + idx[slot] * W * H;
    float s = 0.0f;
    for (int w = 0; w < W; w++) s += x[n * W + w] * u[w * H + h];
    hid[i] = s / (1.0f + expf(-s));
}

__global__ void down_kernel(const float* hid, const float* down, const int* idx, const float* gate, float* out, int N, int W, int H) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * W) return;
    int w = i % W, n = i / W;
    float total = 0.0f;
    for (int k = 0; k < 2; k++) {
        const float* d = down + idx[n * 2 + k] * H * W;
        float s = 0.0f;
        for (int h = 0; h < H; h++) s += hid[(n * 2 + k) * H + h] * d[h * W + w];
        total += gate[n * 2 + k] * s;
    }
    out[i] = total;
}

torch::Tensor moe_forward(torch::Tensor x, torch::Tensor wg, torch::Tensor up, torch::Tensor down) {
    int N = x.size(0), W = x.size(1), E = wg.size(0), H = up.size(2);
    auto idx = torch::empty({N, 2}, x.options().dtype(torch::kInt));
    auto gate = torch::empty({N, 2}, x.options());
    auto hid = torch::empty({N, 2, H}, x.options());
    auto out = torch::empty_like(x);
    cudaStream_t s = at::cuda::getCurrentCUDAStream();
    gate_kernel<<<(N + 63) / 64, 64, 0, s>>>(x.data_ptr<float>(), wg.data_ptr<float>(), idx.data_ptr<int>(), gate.data_ptr<float>(), N, E, W);
    up_kernel<<<(N * 2 * H + 127) / 128, 128, 0, s>>>(x.data_ptr<float>(), up.data_ptr<float>(), idx.data_ptr<int>(), hid.data_ptr<float>(), N, W, H);
    down_kernel<<<(N * W + 127) / 128, 128, 0, s>>>(hid.data_ptr<float>(), down.data_ptr<float>(), idx.data_ptr<int>(), gate.data_ptr<float>(), out.data_ptr<float>(), N, W, H);
    return out;
}
"""
moe = load_inline(
    name="moe_forward",
    cpp_sources="torch::Tensor moe_forward(torch::Tensor x, torch::Tensor wg, torch::Tensor up, torch::Tensor down);",
    cuda_sources=source,
    functions=["moe_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, experts, width, hidden):
        super(ModelNew, self).__init__()
        self.router = nn.Parameter(torch.randn(experts, width) * 0.5)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.4)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.4)

    def forward(self, x):
        return moe.moe_forward(x.contiguous(), self.router.contiguous(), self.up.contiguous(), self.down.contiguous())
