# about = "Takes distances where the reference takes their squares."
# section = "mismatch"
# problem = "chamfer_sets"
# causes = ["square-omitted", "wrong-norm-order"]
# says = ["root|sqrt|square|power|norm"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define THREADS 64

// mean over the points of `from` of the squared distance to the nearest of `to`
__device__ float one_way(const float* from, const float* to, int nf, int nt, float* parts) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < nf; i += THREADS) {
        float px = from[3 * i], py = from[3 * i + 1], pz = from[3 * i + 2];
        float nearest = INFINITY;
        for (int j = 0; j < nt; ++j) {
            float dx = px - to[3 * j], dy = py - to[3 * j + 1], dz = pz - to[3 * j + 2];
            nearest = fminf(nearest, dx * dx + dy * dy + dz * dz);
        }
        sum += sqrtf(nearest);
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < THREADS / 32; ++w) total += parts[w];
    return total / nf;
}

__global__ void chamfer(const float* a, const float* b, float* out, int na, int nb) {
    __shared__ float parts[THREADS / 32];
    const float* pa = a + blockIdx.x * na * 3;
    const float* pb = b + blockIdx.x * nb * 3;
    float there = one_way(pa, pb, na, nb, parts);
    float back = one_way(pb, pa, nb, na, parts);
    if (threadIdx.x == 0) out[blockIdx.x] = there + back;
}

torch::Tensor chamfer_distance(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty({a.size(0)}, a.options());
    chamfer<<<a.size(0), THREADS>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.size(1), b.size(1));
    return out;
}
"""

ext = load_inline("chamfer_distance_module", ["torch::Tensor chamfer_distance(torch::Tensor a, torch::Tensor b);"], [SOURCE], functions=["chamfer_distance"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.chamfer_distance(a.contiguous(), b.contiguous())
