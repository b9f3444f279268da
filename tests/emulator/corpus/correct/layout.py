"""Data movement: padded transpose, channels last, gather, scatter, im2col, pixel shuffle."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>

__global__ void padded_transpose_kernel(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    for (int k = 0; k < 16; k += 4)
        if (row + k < rows && column < columns) tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * columns + column];
    __syncthreads();
    column = blockIdx.y * 16 + threadIdx.x, row = blockIdx.x * 16 + threadIdx.y;
    for (int k = 0; k < 16; k += 4)
        if (row + k < columns && column < rows) y[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
}
torch::Tensor padded_transpose(torch::Tensor x) {
    auto y = torch::empty({x.size(1), x.size(0)}, x.options());
    padded_transpose_kernel<<<dim3((x.size(1) + 15) / 16, (x.size(0) + 15) / 16), dim3(16, 4)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}

__global__ void channels_last_kernel(const at::Half* x, at::Half* y, int channels, int spatial, long total) {
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const long c = i % channels, s = i / channels % spatial, n = i / channels / spatial;
    y[i] = x[(n * channels + c) * spatial + s];
}
torch::Tensor channels_last(torch::Tensor x) {
    auto y = torch::empty_like(x, x.options(), torch::MemoryFormat::ChannelsLast);
    channels_last_kernel<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<at::Half>(), y.data_ptr<at::Half>(), x.size(1), x.size(2) * x.size(3), x.numel());
    return y;
}

template <typename scalar_t>
__global__ void gather_rows_kernel(const scalar_t* x, const int* index, scalar_t* y, int width, int rows) {
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        int source = index[r];
        if (source < 0) continue;  // stays zero
        for (int c = threadIdx.x; c < width; c += blockDim.x) y[r * width + c] = x[source * width + c];
    }
}
torch::Tensor gather_rows(torch::Tensor x, torch::Tensor index) {
    auto y = torch::zeros({index.numel(), x.size(1)}, x.options());
    AT_DISPATCH_ALL_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "gather_rows", [&] {
        gather_rows_kernel<scalar_t><<<3, 32>>>(x.data_ptr<scalar_t>(), index.data_ptr<int>(), y.data_ptr<scalar_t>(), x.size(1), index.numel());
    });
    return y;
}

__global__ void scatter_add_kernel(const double* x, const int64_t* index, double* y, int n) {
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(y + index[i], x[i]);
}
torch::Tensor scatter_add(torch::Tensor x, torch::Tensor index, int64_t size) {
    auto y = torch::zeros({size}, x.options());
    scatter_add_kernel<<<2, 64>>>(x.data_ptr<double>(), index.data_ptr<int64_t>(), y.data_ptr<double>(), x.numel());
    return y;
}

__global__ void im2col_kernel(const float* x, float* columns, int height, int width, int k, int out_h, int out_w) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    if (cell >= out_h * out_w) return;
    const int r = cell / out_w, q = cell % out_w;
    float* to = columns + (size_t)c * k * k * out_h * out_w + cell;
    for (int i = 0; i < k * k; i++, to += out_h * out_w) *to = x[(c * height + r + i / k) * width + q + i % k];
}
torch::Tensor im2col(torch::Tensor x, int k) {
    const int channels = x.size(0), out_h = x.size(1) - k + 1, out_w = x.size(2) - k + 1;
    auto y = torch::empty({channels * k * k, out_h * out_w}, x.options());
    im2col_kernel<<<dim3((out_h * out_w + 31) / 32, channels), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), k, out_h, out_w);
    return y;
}

__global__ void pixel_shuffle_kernel(const float* x, float* y, int c, int h, int w, int f) {
    const int column = threadIdx.x + blockDim.x * blockIdx.x, row = threadIdx.y + blockDim.y * blockIdx.y;
    const int channel = threadIdx.z + blockDim.z * blockIdx.z;
    if (column >= w * f || row >= h * f || channel >= c) return;
    const int from = channel * f * f + row % f * f + column % f;
    y[(channel * h * f + row) * w * f + column] = x[(from * h + row / f) * w + column / f];
}
torch::Tensor pixel_shuffle(torch::Tensor x, int f) {
    const int c = x.size(0) / (f * f), h = x.size(1), w = x.size(2);
    auto y = torch::empty({c, h * f, w * f}, x.options());
    const dim3 block(8, 4, 2);
    const dim3 grid((w * f + block.x - 1) / block.x, (h * f + block.y - 1) / block.y, (c + block.z - 1) / block.z);
    pixel_shuffle_kernel<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), c, h, w, f);
    return y;
}
"""
cpp = """
torch::Tensor padded_transpose(torch::Tensor x);
torch::Tensor channels_last(torch::Tensor x);
torch::Tensor gather_rows(torch::Tensor x, torch::Tensor index);
torch::Tensor scatter_add(torch::Tensor x, torch::Tensor index, int64_t size);
torch::Tensor im2col(torch::Tensor x, int k);
torch::Tensor pixel_shuffle(torch::Tensor x, int f);
"""
names = ["padded_transpose", "channels_last", "gather_rows", "scatter_add", "im2col", "pixel_shuffle"]
ops = load_inline(name="corpus_layout", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x, image = torch.randn(45, 70, device="cuda"), torch.randn(2, 5, 6, 7, device="cuda").half()
    index = torch.tensor([3, -1, 44, 0, 7], device="cuda", dtype=torch.int32)
    rows = x[index.clamp(min=0).long()] * (index >= 0).unsqueeze(1)
    flat, places = x.flatten().double(), torch.randint(0, 11, (45 * 70,), device="cuda")
    summed = torch.zeros(11, device="cuda", dtype=torch.float64).index_add(0, places, flat)
    plane = torch.randn(12, 5, 6, device="cuda")
    return {
        "padded_transpose": (ops.padded_transpose(x), x.t()),
        "channels_last": (ops.channels_last(image), image),
        "gather_rows": (ops.gather_rows(x, index), rows),
        "gather_rows_bfloat16": (ops.gather_rows(x.bfloat16(), index), rows.bfloat16()),
        "scatter_add": (ops.scatter_add(flat, places, 11), summed),
        "im2col": (ops.im2col(plane, 3), F.unfold(plane.unsqueeze(0), 3)[0]),
        "pixel_shuffle": (ops.pixel_shuffle(plane, 2), F.pixel_shuffle(plane, 2)),
    }
