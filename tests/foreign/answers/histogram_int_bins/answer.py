import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

hist_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

// one private histogram per block in shared memory, flushed with 64-bit atomics
template <typename T>
__global__ void hist_kernel(const T* __restrict__ labels, unsigned long long* __restrict__ counts,
                            unsigned long long* __restrict__ outside, int64_t n, int classes) {
    extern __shared__ unsigned int local[];
    for (int c = threadIdx.x; c <= classes; c += blockDim.x) local[c] = 0u;
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        const T v = labels[i];
        const int bin = (v >= 0 && v < (T)classes) ? (int)v : classes;
        atomicAdd(&local[bin], 1u);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < classes; c += blockDim.x)
        if (local[c]) atomicAdd(&counts[c], (unsigned long long)local[c]);
    if (threadIdx.x == 0 && local[classes]) atomicAdd(outside, (unsigned long long)local[classes]);
}

std::vector<torch::Tensor> label_histogram(torch::Tensor labels, int64_t classes) {
    auto l = labels.contiguous();
    auto opt = l.options().dtype(torch::kInt64);
    auto counts = torch::zeros({classes}, opt);
    auto outside = torch::zeros({}, opt);
    const int64_t n = l.numel();
    const int blocks = (int)std::max<int64_t>(1, std::min<int64_t>((n + 255) / 256, 1024));
    const size_t bytes = (classes + 1) * sizeof(unsigned int);
    TORCH_CHECK(bytes <= 48 * 1024, "too many classes for the shared histogram");
    auto cp = reinterpret_cast<unsigned long long*>(counts.data_ptr<int64_t>());
    auto op = reinterpret_cast<unsigned long long*>(outside.data_ptr<int64_t>());
    auto st = at::cuda::getCurrentCUDAStream();
    if (l.scalar_type() == torch::kInt32)
        hist_kernel<int><<<blocks, 256, bytes, st>>>(l.data_ptr<int>(), cp, op, n, (int)classes);
    else
        hist_kernel<int64_t><<<blocks, 256, bytes, st>>>(l.to(torch::kInt64).data_ptr<int64_t>(), cp, op, n, (int)classes);
    return {counts, outside};
}
"""

hist = load_inline(name="label_histogram_ext",
                   cpp_sources="std::vector<torch::Tensor> label_histogram(torch::Tensor labels, int64_t classes);",
                   cuda_sources=hist_src, functions=["label_histogram"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes

    def forward(self, labels):
        counts, outside = hist.label_histogram(labels, self.num_classes)
        return counts, outside
