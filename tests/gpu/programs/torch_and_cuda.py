"""What extensions ask of torch and CUDA beside kernels: streams, guards, properties, symbols, errors."""

import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

__constant__ float factors[4];

template <typename scalar_t, int FACTORS>
__global__ void weighted_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int64_t n) {
    extern __shared__ unsigned char raw[];
    float* tile = reinterpret_cast<float*>(raw);
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll
    for (int f = 0; f < FACTORS; ++f) sum += factors[f] * (i < n ? static_cast<float>(x[i]) : 0.0f);
    tile[threadIdx.x + 20000] = sum;
    __syncthreads();
    if (i < n) y[i] = static_cast<scalar_t>(tile[threadIdx.x + 20000]);
}

torch::Tensor weighted(torch::Tensor x, std::vector<double> given) {
    TORCH_CHECK(x.is_cuda(), "x has to be on the GPU, and is on ", x.device());
    TORCH_CHECK(given.size() == 4, "expected 4 factors, got ", given.size());
    const c10::cuda::CUDAGuard guard(x.device());
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    float values[4];
    for (int f = 0; f < 4; ++f) values[f] = static_cast<float>(given[f]);
    const auto direction = cudaMemcpyHostToDevice;
    C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(factors, values, sizeof(values), 0, direction, stream));
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const size_t shared = 96 * 1024;
    const int threads = std::min(256, at::cuda::getCurrentDeviceProperties()->maxThreadsPerBlock);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "weighted", [&] {
        auto kernel = weighted_kernel<scalar_t, 4>;
        C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
        kernel<<<(x.numel() + threads - 1) / threads, threads, shared, stream>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

__global__ void rows_kernel(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x,
                            torch::PackedTensorAccessor32<float, 1, torch::RestrictPtrTraits> y) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= x.size(0)) return;
    float sum = 0;
    for (int column = 0; column < x.size(1); ++column) sum += x[row][column];
    y[row] = sum;
}

std::tuple<torch::Tensor, torch::Tensor> rows(torch::Tensor x, c10::optional<torch::Tensor> bias) {
    auto y = torch::zeros({x.size(0)}, torch::TensorOptions().dtype(torch::kFloat32).device(x.device()));
    rows_kernel<<<(x.size(0) + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream().stream()>>>(
        x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
        y.packed_accessor32<float, 1, torch::RestrictPtrTraits>());
    if (bias.has_value()) y = y + *bias;
    return std::make_tuple(y, at::sum(x, 0));
}
"""
CPP = """
torch::Tensor weighted(torch::Tensor x, std::vector<double> given);
std::tuple<torch::Tensor, torch::Tensor> rows(torch::Tensor x, c10::optional<torch::Tensor> bias);
"""
extension = load_inline(
    name="torch_and_cuda",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["weighted", "rows"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)
FACTORS = [0.25, -1.5, 2.0, 1.0 / 3.0]


def said(call, *arguments):
    """What the extension refuses an argument with, as a tensor of characters, the first line of it."""
    try:
        call(*arguments)
    except RuntimeError as error:
        return torch.tensor(list(str(error).splitlines()[0].encode()))
    return torch.tensor([])


def cases():
    found = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x = torch.randn(1003, 77, device="cuda").to(dtype)
        expected = x.float() * sum(torch.tensor(FACTORS).tolist())
        found[f"weighted {dtype}"] = extension.weighted(x, FACTORS), expected.to(dtype)
    x = torch.randn(500, 33, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        late = extension.weighted(x.t(), FACTORS)
    torch.cuda.current_stream().wait_stream(side)
    found["weighted on a side stream"] = late, x.t() * sum(FACTORS)
    bias = torch.randn(500, device="cuda")
    sums, columns = extension.rows(x, bias)
    found["rows"] = sums, x.sum(1) + bias
    found["columns"] = columns, x.sum(0)
    found["without a bias"] = extension.rows(x, None)[0], x.sum(1)
    words = said(extension.weighted, torch.zeros(3), FACTORS)
    found["refused"] = words, torch.tensor(list(b"x has to be on the GPU, and is on cpu"))
    return found
