"""Windows over images: shared halo, constant weights, packed accessors, adaptive pooling."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#define TILE 8

__global__ void halo_conv_kernel(const float* x, const float* w, const float* bias, float* y, int channels, int height, int width) {
    __shared__ float patch[TILE + 2][TILE + 2];
    const int out_channel = blockIdx.z % gridDim.z, row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = bias ? bias[out_channel] : 0.f;
    for (int c = 0; c < channels; ++c) {
        for (int i = threadIdx.y * TILE + threadIdx.x; i < (TILE + 2) * (TILE + 2); i += TILE * TILE) {
            const int r = i / (TILE + 2), q = i % (TILE + 2);
            const int h = (int)blockIdx.y * TILE + r - 1, v = (int)blockIdx.x * TILE + q - 1;
            patch[r][q] = h >= 0 && h < height && v >= 0 && v < width ? x[(c * height + h) * width + v] : 0.0f;
        }
        __syncthreads();
        for (int r = 0; r < 3; ++r)
            for (int q = 0; q < 3; ++q) sum += patch[threadIdx.y + r][threadIdx.x + q] * w[((out_channel * channels + c) * 3 + r) * 3 + q];
        __syncthreads();
    }
    if (row < height && column < width) y[(out_channel * height + row) * width + column] = sum;
}
torch::Tensor halo_conv(torch::Tensor x, torch::Tensor w, torch::Tensor bias) {
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    const int n = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3), out = w.size(0);
    auto y = torch::empty({n, out, height, width}, x.options());
    const dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE, out);
    for (int i = 0; i < n; ++i) {
        halo_conv_kernel<<<grid, dim3(TILE, TILE)>>>(x[i].data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y[i].data_ptr<float>(), channels, height, width);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return y;
}

__constant__ float taps[256];
template <int K>
__global__ void depthwise_conv1d_kernel(const float* x, float* y, int channels, int length) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    if (t >= length) return;
    const float* line = x + ((size_t)blockIdx.z * channels + c) * length;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int at = t + k - K + 1;  // causal
        if (at >= 0) sum += taps[c * K + k] * line[at];
    }
    y[((size_t)blockIdx.z * channels + c) * length + t] = sum;
}
torch::Tensor depthwise_conv1d(torch::Tensor x, torch::Tensor w) {
    auto y = torch::empty_like(x);
    C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(taps, w.data_ptr<float>(), w.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice, at::cuda::getCurrentCUDAStream()));
    depthwise_conv1d_kernel<4><<<dim3((x.size(2) + 63) / 64, x.size(1), x.size(0)), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2));
    return y;
}

__global__ void accessor_max_pool_kernel(const torch::PackedTensorAccessor32<float, 4, torch::RestrictPtrTraits> x,
                                         torch::PackedTensorAccessor32<float, 4> y, torch::PackedTensorAccessor64<int64_t, 4> where) {
    const int q = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, plane = blockIdx.z;
    const int n = plane / x.size(1), c = plane % x.size(1);
    if (q >= y.size(3)) return;
    float best = -INFINITY;
    int64_t index = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const float v = x[n][c][2 * r + i][2 * q + j];
            if (v > best) { best = v; index = (int64_t)(2 * r + i) * x.size(3) + 2 * q + j; }
        }
    y[n][c][r][q] = best;
    where[n][c][r][q] = index;
}
std::tuple<torch::Tensor, torch::Tensor> accessor_max_pool(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2}, x.options());
    auto where = torch::empty(y.sizes(), x.options().dtype(torch::kLong));
    accessor_max_pool_kernel<<<dim3((y.size(3) + 15) / 16, y.size(2), y.size(0) * y.size(1)), 16>>>(
        x.packed_accessor32<float, 4, torch::RestrictPtrTraits>(), y.packed_accessor32<float, 4>(), where.packed_accessor64<int64_t, 4>());
    return {y, where};
}

__global__ void adaptive_pool_kernel(const float* x, float* y, int height, int width) {
    // One block per output cell, one warp per block.
    const int cells = gridDim.x * gridDim.y;
    const int top = blockIdx.y * height / gridDim.y, bottom = ((blockIdx.y + 1) * height + gridDim.y - 1) / gridDim.y;
    const int left = blockIdx.x * width / gridDim.x, right = ((blockIdx.x + 1) * width + gridDim.x - 1) / gridDim.x;
    const int area = (bottom - top) * (right - left);
    float sum = 0;
    for (int i = threadIdx.x; i < area; i += 32) sum += x[(blockIdx.z * height + top + i / (right - left)) * width + left + i % (right - left)];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o, 32);
    if (threadIdx.x == 0) y[blockIdx.z * cells + blockIdx.y * gridDim.x + blockIdx.x] = sum / area;
}
torch::Tensor adaptive_pool(torch::Tensor x, int64_t rows, int64_t columns) {
    auto y = at::empty({x.size(0), x.size(1), rows, columns}, x.options());
    adaptive_pool_kernel<<<dim3(columns, rows, x.size(0) * x.size(1)), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(2), x.size(3));
    return y;
}
"""
cpp = """
torch::Tensor halo_conv(torch::Tensor x, torch::Tensor w, torch::Tensor bias);
torch::Tensor depthwise_conv1d(torch::Tensor x, torch::Tensor w);
std::tuple<torch::Tensor, torch::Tensor> accessor_max_pool(torch::Tensor x);
torch::Tensor adaptive_pool(torch::Tensor x, int64_t rows, int64_t columns);
"""
names = ["halo_conv", "depthwise_conv1d", "accessor_max_pool", "adaptive_pool"]
ops = load_inline(name="corpus_convolution", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x, w, bias = (torch.randn(*size, device="cuda") for size in ((2, 3, 19, 21), (5, 3, 3, 3), (5,)))
    line, taps = torch.randn(2, 6, 77, device="cuda"), torch.randn(6, 4, device="cuda")
    causal = F.conv1d(F.pad(line, (3, 0)), taps.unsqueeze(1), groups=6)
    pooled, where = ops.accessor_max_pool(x)
    expected, expected_where = F.max_pool2d(x, 2, return_indices=True)
    return {
        "halo_conv": (ops.halo_conv(x, w, bias), F.conv2d(x, w, bias, padding=1)),
        "depthwise_conv1d": (ops.depthwise_conv1d(line, taps), causal),
        "accessor_max_pool": (pooled, expected),
        "accessor_max_pool_indices": (where, expected_where),
        "adaptive_pool": (ops.adaptive_pool(x, 4, 5), F.adaptive_avg_pool2d(x, (4, 5))),
    }
