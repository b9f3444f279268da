"""Packed accessors and strides: a transposed input read in place; channels_last; an in-place update."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = """
#include <torch/extension.h>

template <typename scalar_t>
__global__ void row_sums(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                         torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> out) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= x.size(0)) return;
    scalar_t s = 0;
    for (int c = 0; c < x.size(1); c++) s += x[r][c];
    out[r] = s;
}

__global__ void negate(float* x, int rows, int cols, int64_t s0, int64_t s1) {
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows && c < cols) x[r * s0 + c * s1] *= -1;
}

torch::Tensor sums(torch::Tensor x) {
    auto out = at::empty({x.size(0)}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sums", ([&] {
        row_sums<scalar_t><<<(x.size(0) + 31) / 32, 32>>>(
            x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>());
    }));
    return out;
}

torch::Tensor negate_(torch::Tensor x) {
    const int threads = 16;
    dim3 blocks((x.size(1) + threads - 1) / threads, (x.size(0) + threads - 1) / threads);
    negate<<<blocks, dim3(threads, threads)>>>(x.data_ptr<float>(), x.size(0), x.size(1), x.stride(0), x.stride(1));
    return x;
}

bool last(torch::Tensor x) { return x.is_contiguous(at::MemoryFormat::ChannelsLast) && !x.is_contiguous(); }

double trace(torch::Tensor x) {
    auto a = x.accessor<double, 2>();
    double s = 0;
    for (int64_t i = 0; i < a.size(0); ++i) s += a[i][i];
    return s;
}
"""
cpp = """torch::Tensor sums(torch::Tensor x);
torch::Tensor negate_(torch::Tensor x);
bool last(torch::Tensor x);
double trace(torch::Tensor x);
"""
ext = load_inline(
    "accessors", cpp, cuda, functions={"sums": "row sums", "negate_": "", "last": "", "trace": ""}
)


def cases():
    x = torch.randn(40, 50, device="cuda")
    y = x.clone().t()
    negated = ext.negate_(y)
    image = torch.randn(2, 3, 4, 5, device="cuda")
    square = torch.randn(4, 4, dtype=torch.float64, device="cpu")  # read by host code
    return [
        (ext.sums(x.t()), x.sum(0)),
        (ext.sums(x.double()), x.double().sum(1)),
        (y, -x.t()),
        (negated is y, True),
        (ext.last(image), False),
        (ext.last(image.to(memory_format=torch.channels_last)), True),
        (ext.trace(square), square.trace().item()),
        (ext.sums.__doc__.splitlines()[-1], "row sums"),
    ]


def refusals():
    return [
        (lambda: ext.trace(torch.zeros(2, 2)), RuntimeError, "expected scalar type Double but found Float"),
        (
            lambda: ext.trace(torch.zeros(2).double()),
            RuntimeError,
            "TensorAccessor expected 2 dims but tensor has 1",
        ),
        (
            lambda: ext.sums(torch.zeros(2, 2).int()),
            NotImplementedError,
            "\"sums\" not implemented for 'Int'",
        ),
        (lambda: ext.negate_(torch.zeros(2)), IndexError, "Dimension out of range"),
    ]
