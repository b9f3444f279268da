# about = "The last node of each graph is not in its mean and maximum."
# section = "mismatch"
# problem = "graph_readout"
# causes = ["last-element-left-out", "index-off-by-one", "lost-last-block"]
# says = ["last|one too|short|early|off.by|end|left out|missing"]
# stage = ["verify"]
# line = "end - 1"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

readout_cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

__device__ int lower_bound(const int64_t* ids, int n, int64_t key) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (ids[mid] < key) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

__global__ void readout_kernel(const float* __restrict__ x, const int64_t* __restrict__ ids, const float* __restrict__ gamma,
                               const float* __restrict__ beta, float* __restrict__ out, int n, int channels) {
    extern __shared__ float row[];   // 2 * channels values
    __shared__ float stats[2];
    int g = blockIdx.x;
    int begin = lower_bound(ids, n, g);
    int end = lower_bound(ids, n, g + 1);
    int width = 2 * channels;
    for (int c = threadIdx.x; c < channels; c += blockDim.x) {
        float sum = 0.0f;
        float best = -FLT_MAX;
        for (int i = begin; i < end - 1; i++) {
            float v = x[i * channels + c];
            sum += v;
            best = fmaxf(best, v);
        }
        int count = end - begin;
        row[c] = count > 0 ? sum / count : 0.0f;
        row[channels + c] = count > 0 ? best : 0.0f;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float mean = 0.0f;
        for (int c = 0; c < width; c++) mean += row[c];
        mean /= width;
        float var = 0.0f;
        for (int c = 0; c < width; c++) var += (row[c] - mean) * (row[c] - mean);
        var /= width;
        stats[0] = mean;
        stats[1] = rsqrtf(var + 1e-5f);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[g * width + c] = (row[c] - stats[0]) * stats[1] * gamma[c] + beta[c];
}

torch::Tensor readout(torch::Tensor x, torch::Tensor ids, torch::Tensor gamma, torch::Tensor beta, int64_t graphs) {
    int n = x.size(0), channels = x.size(1);
    auto out = torch::empty({graphs, 2 * channels}, x.options());
    readout_kernel<<<graphs, 32, 2 * channels * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), ids.data_ptr<int64_t>(), gamma.data_ptr<float>(), beta.data_ptr<float>(),
        out.data_ptr<float>(), n, channels);
    return out;
}
"""

readout_cpp = "torch::Tensor readout(torch::Tensor x, torch::Tensor ids, torch::Tensor gamma, torch::Tensor beta, int64_t graphs);"

readout_ext = load_inline(name="readout_ext", cpp_sources=[readout_cpp], cuda_sources=[readout_cuda], functions=["readout"])


class ModelNew(nn.Module):
    def __init__(self, channels, graphs):
        super().__init__()
        self.graphs = graphs
        self.weight = nn.Parameter(torch.ones(2 * channels))
        self.bias = nn.Parameter(torch.zeros(2 * channels))

    def forward(self, x, graph):
        return readout_ext.readout(x.contiguous(), graph.contiguous(), self.weight, self.bias, self.graphs)
