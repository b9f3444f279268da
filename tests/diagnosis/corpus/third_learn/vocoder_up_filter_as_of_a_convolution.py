# about = "The filter is read with the output channel first, as that of a plain convolution."
# section = "mismatch"
# problem = "vocoder_up"
# causes = ["transposed-filter", "transposed-operand", "layout-misread", "wrong-channel"]
# says = ["transpos|layout|channel|order|axes|exchang|swap|filter|weight"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// a block for an output channel of a sample; inputs are spread into a line of shared memory
__global__ void spread(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, const float* __restrict__ rate,
                       float* __restrict__ y, const int IC, const int L, const int OL) {
    extern __shared__ float line[];
    const int oc = blockIdx.x, OC = gridDim.x, n = blockIdx.y;
    for (int i = threadIdx.x; i < OL; i += blockDim.x) line[i] = b[oc];
    __syncthreads();
    for (int i = threadIdx.x; i < L * 5; i += blockDim.x) {
        const int l = i / 5, k = i % 5, at = l * 3 - 1 + k;
        if (at < 0 || at >= OL) continue;
        float acc = 0.f;
        for (int c = 0; c < IC; ++c) acc = fmaf(x[(n * IC + c) * L + l], w[(oc * IC + c) * 5 + k], acc);
        atomicAdd(line + at, acc);
    }
    __syncthreads();
    const float a = rate[oc];
    for (int i = threadIdx.x; i < OL; i += blockDim.x) {
        const float v = line[i], s = sinf(a * v);
        y[((size_t)n * OC + oc) * OL + i] = v + s * s / (a + 1e-9f);
    }
}

torch::Tensor upsample(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate) {
    const int L = x.size(2), OL = (L - 1) * 3 - 2 + 4 + 1 + 1;
    auto y = torch::empty({x.size(0), w.size(1), OL}, x.options());
    spread<<<dim3(w.size(1), x.size(0)), 64, OL * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(),
        b.data_ptr<float>(), rate.data_ptr<float>(), y.data_ptr<float>(), x.size(1), L, OL);
    return y;
}
"""
ext = load_inline("upsample_spread", cpp_sources="torch::Tensor upsample(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate);",
                  cuda_sources=SRC, functions=["upsample"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose1d(inner, outer, 5, stride=3, padding=1, output_padding=1)
        self.rate = nn.Parameter(torch.rand(outer) * 1.5 + 0.5)

    def forward(self, x):
        return ext.upsample(x.contiguous(), self.up.weight, self.up.bias, self.rate)
