# about = "The zeroth coefficient lacks its factor of root one half."
# section = "mismatch"
# problem = "cosine_transform"
# causes = ["scale-missing", "wrong-coefficient", "operator-missing", "wrong-divisor", "mask-ignored"]
# says = ["scale|factor|0\\.7|first|coefficient|root|missing|where|mask"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cosine_transform_cuda",
    cpp_sources="std::vector<torch::Tensor> cosine_transform(torch::Tensor x);",
    cuda_sources=r"""
#define PI 3.14159265358979f

// A block per row, a thread per frequency.
__global__ void dct2(const float* x, float* y, float* energy, int n) {
    extern __shared__ float row[];
    __shared__ float upper;
    int k = threadIdx.x;
    if (k < n) row[k] = x[blockIdx.x * n + k];
    if (k == 0) upper = 0.f;
    __syncthreads();
    if (k < n) {
        float sum = 0.f;
        for (int i = 0; i < n; ++i) sum += row[i] * cosf(PI / n * k * (i + 0.5f));
        float value = sum * sqrtf(2.f / n);
        y[blockIdx.x * n + k] = value;
        if (k >= n / 2) atomicAdd(&upper, value * value);
    }
    __syncthreads();
    if (k == 0) energy[blockIdx.x] = upper;
}

std::vector<torch::Tensor> cosine_transform(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1);
    auto y = torch::empty_like(x);
    auto energy = torch::empty({rows}, x.options());
    dct2<<<rows, (n + 31) / 32 * 32, n * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), energy.data_ptr<float>(), n);
    return {y, energy};
}
""",
    functions=["cosine_transform"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        y, energy = ext.cosine_transform(x.contiguous())
        return y, energy
