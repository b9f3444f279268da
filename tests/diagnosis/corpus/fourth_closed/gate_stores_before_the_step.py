# about = "A row holds the state as it was before the step: the sequence is one step late."
# section = "mismatch"
# problem = "gated_recurrence_norm"
# causes = ["state-order", "scan-exclusive", "scan-off-by-one", "index-off-by-one", "state-not-updated"]
# says = ["before|after|exclusive|previous|earl|late|order|shift|off.by|one|old|update"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <c10/cuda/CUDAStream.h>
#include <tuple>

template <int MAX_C>
__global__ void fused(const float* x, const float* g, const float* s0, const float* a, const float* w, const float* k,
                      float* y, float* sN, int T, int C, float eps) {
    __shared__ float sq[MAX_C];
    const int c = threadIdx.x;
    const bool on = c < C;
    const long first = (long)blockIdx.x * T * C;
    float s = on ? s0[blockIdx.x * C + c] : 0.f;
    for (int t = 0; t < T; t++) {
        const long p = first + (long)t * C + c;
        float xv = 0.f;
        const float before = s;
        if (on) {
            xv = x[p];
            const float z = 1.f / (1.f + __expf(-(g[p] + a[c])));
            s = fmaf(z, s - xv, xv);
        }
        sq[c] = on ? before * before : 0.f;
        __syncthreads();
        for (int d = MAX_C / 2; d; d /= 2) {
            if (c < d) sq[c] += sq[c + d];
            __syncthreads();
        }
        const float r = rsqrtf(sq[0] / C + eps);
        if (on) y[p] = before * r * w[c] + k[c] * xv;
        __syncthreads();
    }
    if (on) sN[blockIdx.x * C + c] = s;
}

std::tuple<torch::Tensor, torch::Tensor> run(torch::Tensor x, torch::Tensor g, torch::Tensor s0, torch::Tensor a,
                                             torch::Tensor w, torch::Tensor k, double eps) {
    TORCH_CHECK(x.size(2) <= 64, "too many channels");
    auto y = torch::empty_like(x), sN = torch::empty_like(s0);
    fused<64><<<x.size(0), 64, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), g.data_ptr<float>(), s0.data_ptr<float>(), a.data_ptr<float>(), w.data_ptr<float>(),
        k.data_ptr<float>(), y.data_ptr<float>(), sN.data_ptr<float>(), x.size(1), x.size(2), eps);
    return {y, sN};
}
"""
DECL = "#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> run(torch::Tensor x, torch::Tensor g, torch::Tensor s0, torch::Tensor a, torch::Tensor w, torch::Tensor k, double eps);"

lib = load_inline("fused_gate", DECL, SRC, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.decay = nn.Parameter(torch.randn(channels))
        self.weight = nn.Parameter(torch.ones(channels))
        self.skip = nn.Parameter(torch.rand(channels) + 0.5)
        self.eps = eps

    def forward(self, x, gate, state):
        return lib.run(x.contiguous(), gate.contiguous(), state.contiguous(), self.decay, self.weight, self.skip, self.eps)
