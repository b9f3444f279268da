"""Kernels, a type and variables of the device in an unnamed namespace, one of them a template launched from one."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = """
#include <cuda_runtime.h>
namespace {
struct Range { int first, last; };
__constant__ float weights[4];
__device__ float offsets[4] = {0.5f, 1.5f, 2.5f, 3.5f};

template <int STEP, class T>
__global__ void weighed(const T* x, T* y, Range range) {
    __shared__ T tile[64];
    const int i = range.first + blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = i < range.last ? x[i] : T(0);
    __syncthreads();
    if (i < range.last) y[i] = tile[(threadIdx.x + STEP) % 64] * T(weights[i % 4]) + T(offsets[i % 4]);
}

template <class T>
void launch(const T* x, T* y, Range range, bool far) {
    auto kernel = far ? &weighed<2, T> : &weighed<1, T>;
    kernel<<<(range.last + 63) / 64, 64>>>(x, y, range);
}
}  // namespace

namespace inner { namespace { __global__ void negate(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] *= -1; } } }

at::Tensor weighed_cuda(at::Tensor x, bool far) {
    const float given[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(weights, given, sizeof given);
    auto y = at::empty_like(x);
    const Range range{0, static_cast<int>(x.numel())};
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "weighed", [&] {
        launch<scalar_t>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), range, far);
    });
    if (x.scalar_type() == at::kFloat) inner::negate<<<1, 32>>>(y.data_ptr<float>(), 8);
    return y;
}
"""
ext = load_inline(
    name="unnamed_namespace",
    cpp_sources="at::Tensor weighed_cuda(at::Tensor x, bool far);",
    cuda_sources=[cuda],
    functions=["weighed_cuda"],
)


def expected(x, step):
    moved = x.view(-1, 64).roll(-step, 1).flatten()
    y = moved * torch.tensor([1, 2, 3, 4]).repeat(64).to(x) + torch.tensor([0.5, 1.5, 2.5, 3.5]).repeat(
        64
    ).to(x)
    if x.dtype == torch.float32:
        y[:8] *= -1
    return y


def cases():
    x = torch.rand(256, device="cuda")
    return [
        (ext.weighed_cuda(x, False), expected(x, 1)),
        (ext.weighed_cuda(x, True), expected(x, 2)),
        (ext.weighed_cuda(x.double(), True), expected(x.double(), 2)),
    ]
