# about = "The nodes are summed, not averaged, and the layer norm's weight and bias are exchanged."
# section = "mismatch"
# problem = "graph_readout"
# faults = [{causes = ["sum-for-mean", "wrong-divisor", "scale-missing"], says = ["sum|mean|divi|count|average"]}, {causes = ["gamma-beta-swapped", "operands-swapped"], says = ["weight|bias|gamma|beta|affine|swap|exchang"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>

// Floats in an order that unsigned integers keep.
__device__ unsigned ordered(float v) {
    unsigned u = __float_as_uint(v);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

__device__ float plain(unsigned u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

__global__ void scatter(const float* x, const int64_t* graph, float* sums, unsigned* tops, int* counts, int nodes, int channels) {
    const int total = nodes * channels;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int node = i / channels, c = i - node * channels;
        const int g = (int)graph[node];
        atomicAdd(sums + g * channels + c, x[i]);
        atomicMax(tops + g * channels + c, ordered(x[i]));
        if (c == 0) atomicAdd(counts + g, 1);
    }
}

__global__ void normalise(const float* sums, const unsigned* tops, const int* counts, const float* w, const float* b, float* y,
                          int channels) {
    const int g = blockIdx.x, lane = threadIdx.x, width = 2 * channels, n = counts[g];
    auto value = [&](int c) {
        if (n == 0) return 0.f;
        return c < channels ? sums[g * channels + c] : plain(tops[g * channels + c - channels]);
    };
    float s = 0.f, ss = 0.f;
    for (int c = lane; c < width; c += 32) s += value(c);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffff, s, d);
    const float mean = s / width;
    for (int c = lane; c < width; c += 32) ss += (value(c) - mean) * (value(c) - mean);
    for (int d = 16; d; d >>= 1) ss += __shfl_xor_sync(0xffffffff, ss, d);
    const float inv = rsqrtf(ss / width + 1e-5f);
    for (int c = lane; c < width; c += 32) y[g * width + c] = (value(c) - mean) * inv * b[c] + w[c];
}

torch::Tensor read_graphs(torch::Tensor x, torch::Tensor graph, torch::Tensor w, torch::Tensor b, int64_t graphs) {
    const int nodes = x.size(0), channels = x.size(1);
    auto ints = x.options().dtype(torch::kInt32);
    auto sums = torch::zeros({graphs, channels}, x.options());
    auto tops = torch::zeros({graphs, channels}, ints);
    auto counts = torch::zeros({graphs}, ints);
    auto y = torch::empty({graphs, 2 * channels}, x.options());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    unsigned* t = reinterpret_cast<unsigned*>(tops.data_ptr<int>());
    scatter<<<6, 128, 0, stream>>>(x.data_ptr<float>(), graph.data_ptr<int64_t>(), sums.data_ptr<float>(), t,
                                   counts.data_ptr<int>(), nodes, channels);
    normalise<<<graphs, 32, 0, stream>>>(sums.data_ptr<float>(), t, counts.data_ptr<int>(), w.data_ptr<float>(),
                                         b.data_ptr<float>(), y.data_ptr<float>(), channels);
    return y;
}
"""

graphs_ext = load_inline(
    name="read_graphs",
    cpp_sources="torch::Tensor read_graphs(torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, int64_t);",
    cuda_sources=SOURCE,
    functions=["read_graphs"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, graphs):
        super().__init__()
        self.graphs = graphs
        self.weight = nn.Parameter(torch.ones(2 * channels))
        self.bias = nn.Parameter(torch.zeros(2 * channels))

    def forward(self, x, graph):
        return graphs_ext.read_graphs(x.contiguous(), graph.contiguous(), self.weight, self.bias, self.graphs)
