"""LayerNorm in float32: any normalized shape and eps, with or without weight and bias.

A row (the normalised trailing dimensions) is contiguous. It is cut into slices of 32 Ki elements, more where
that made over 1024 of them; a slice is one block's work. Several slices: a first kernel writes the moments of
every slice, the second merges them and normalises. One slice: the second kernel does both, and its second
read comes from cache.
Deviations are taken from the row's first element and merged by Chan's formula: a large common offset costs
no digits. Inference only: no gradient flows through it.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor layer_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t dims,
    double eps);
"""

CUDA_SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

constexpr int kWarp = 32;
constexpr int kMaxWarps = 8;
constexpr int kTile = 4;                       // vector loads that a thread has in flight
constexpr int64_t kSlice = 32 * 32 * 32;       // elements of a row that one block takes
constexpr int64_t kMaxSlices = 32 * 32;

template <int V>
struct alignas(4 * V) Pack {
    float v[V];
};

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared deviations from the mean
};

// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ __forceinline__ Moments block_merge(Moments mine) {
    __shared__ Moments of_warp[kMaxWarps];
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        Moments other;
        other.count = __shfl_xor_sync(0xffffffff, mine.count, offset);
        other.mean = __shfl_xor_sync(0xffffffff, mine.mean, offset);
        other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, offset);
        mine = merge(mine, other);
    }
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    Moments all = of_warp[0];
    for (int warp = 1; warp < int(blockDim.x) / kWarp; ++warp) all = merge(all, of_warp[warp]);
    return all;
}

// Moments of x - shift over this thread's share of packs [begin, end); a tile takes two passes in registers.
template <int V>
__device__ __forceinline__ Moments slice_moments(const Pack<V>* x, int64_t begin, int64_t end, float shift) {
    Moments total = {0.0f, 0.0f, 0.0f};
    for (int64_t i = begin + threadIdx.x; i < end; i += kTile * int64_t(blockDim.x)) {
        Pack<V> tile[kTile];
        int packs = 0;
        #pragma unroll
        for (int u = 0; u < kTile; ++u) {
            const int64_t at = i + u * int64_t(blockDim.x);
            if (at < end) {
                tile[u] = x[at];
                ++packs;
            }
        }
        float sum = 0.0f;
        #pragma unroll
        for (int u = 0; u < kTile; ++u) {
            if (u < packs) {
                for (int k = 0; k < V; ++k) sum += tile[u].v[k] - shift;
            }
        }
        const float count = float(packs * V);
        const float mean = sum / count;
        float m2 = 0.0f;
        #pragma unroll
        for (int u = 0; u < kTile; ++u) {
            if (u < packs) {
                for (int k = 0; k < V; ++k) {
                    const float deviation = (tile[u].v[k] - shift) - mean;
                    m2 += deviation * deviation;
                }
            }
        }
        total = merge(total, {count, mean, m2});
    }
    return total;
}

// One block per slice; block = row * slices + slice.
template <int V>
__global__ void moments_kernel(
    const float* __restrict__ x, Moments* __restrict__ partials, int64_t packs, int64_t slices,
    int64_t slice_packs) {
    const int64_t row = blockIdx.x / slices;
    const int64_t begin = (blockIdx.x % slices) * slice_packs;
    const int64_t end = min(begin + slice_packs, packs);
    const Pack<V>* source = reinterpret_cast<const Pack<V>*>(x) + row * packs;
    const Moments moments = block_merge(slice_moments<V>(source, begin, end, x[row * packs * V]));
    if (threadIdx.x == 0) partials[blockIdx.x] = moments;
}

template <int V>
__global__ void normalise_kernel(
    const float* __restrict__ x, const Moments* __restrict__ partials, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ y, int64_t packs, int64_t slices, int64_t slice_packs,
    float eps) {
    const int64_t row = blockIdx.x / slices;
    const int64_t begin = (blockIdx.x % slices) * slice_packs;
    const int64_t end = min(begin + slice_packs, packs);
    const Pack<V>* source = reinterpret_cast<const Pack<V>*>(x) + row * packs;
    const Pack<V>* gamma = reinterpret_cast<const Pack<V>*>(weight);
    const Pack<V>* beta = reinterpret_cast<const Pack<V>*>(bias);
    Pack<V>* target = reinterpret_cast<Pack<V>*>(y) + row * packs;
    const float shift = x[row * packs * V];

    Moments moments = {0.0f, 0.0f, 0.0f};
    if (slices == 1) {
        moments = slice_moments<V>(source, begin, end, shift);
    } else {
        for (int64_t s = threadIdx.x; s < slices; s += blockDim.x) {
            moments = merge(moments, partials[row * slices + s]);
        }
    }
    moments = block_merge(moments);
    const float inverse_deviation = 1.0f / sqrtf(moments.m2 / moments.count + eps);

    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        Pack<V> pack = source[i];
        for (int k = 0; k < V; ++k) pack.v[k] = ((pack.v[k] - shift) - moments.mean) * inverse_deviation;
        if (gamma != nullptr) {
            const Pack<V> scale = gamma[i];
            for (int k = 0; k < V; ++k) pack.v[k] *= scale.v[k];
        }
        if (beta != nullptr) {
            const Pack<V> offset = beta[i];
            for (int k = 0; k < V; ++k) pack.v[k] += offset.v[k];
        }
        target[i] = pack;
    }
}

template <int V>
void launch(
    const torch::Tensor& x, const float* weight, const float* bias, torch::Tensor& y, int64_t length,
    float eps) {
    const int64_t rows = x.numel() / length;
    const int64_t packs = length / V;
    const int64_t slices = std::min((length + kSlice - 1) / kSlice, kMaxSlices);
    const int64_t slice_packs = (packs + slices - 1) / slices;
    TORCH_CHECK(rows * slices <= std::numeric_limits<int>::max(), "layer_norm: too many rows for one grid");
    const unsigned grid = unsigned(rows * slices);
    const unsigned block = unsigned(std::min<int64_t>((slice_packs + kWarp - 1) / kWarp, kMaxWarps) * kWarp);
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

    torch::Tensor scratch = torch::empty({slices == 1 ? 0 : 3 * rows * slices}, x.options());
    Moments* partials = reinterpret_cast<Moments*>(scratch.data_ptr<float>());
    if (slices > 1) {
        moments_kernel<V><<<grid, block, 0, stream>>>(
            x.data_ptr<float>(), partials, packs, slices, slice_packs);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    normalise_kernel<V><<<grid, block, 0, stream>>>(
        x.data_ptr<float>(), partials, weight, bias, y.data_ptr<float>(), packs, slices, slice_packs, eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// One value per element of a row, contiguous; undefined when there is none.
torch::Tensor per_element(const std::optional<torch::Tensor>& values, int64_t length) {
    if (!values.has_value()) return torch::Tensor();
    TORCH_CHECK(
        values->is_cuda() && values->scalar_type() == torch::kFloat32 && values->numel() == length,
        "layer_norm: weight and bias have the normalized shape, in float32, on the GPU");
    return values->contiguous();
}

bool aligned(const float* data) {  // for 16-byte loads; null is never loaded from
    return reinterpret_cast<uintptr_t>(data) % sizeof(Pack<4>) == 0;
}

torch::Tensor layer_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t dims,
    double eps) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "layer_norm: x is not float32 on the GPU");
    TORCH_CHECK(dims > 0 && dims <= x.dim(), "layer_norm: x has fewer dimensions than are normalised");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    int64_t length = 1;
    for (int64_t d = x.dim() - dims; d < x.dim(); ++d) length *= x.size(d);
    torch::Tensor gamma = per_element(weight, length);
    torch::Tensor beta = per_element(bias, length);
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    const float* gamma_data = gamma.defined() ? gamma.data_ptr<float>() : nullptr;
    const float* beta_data = beta.defined() ? beta.data_ptr<float>() : nullptr;
    if (length % 4 == 0 && aligned(x.data_ptr<float>()) && aligned(gamma_data) && aligned(beta_data)) {
        launch<4>(x, gamma_data, beta_data, y, length, float(eps));
    } else {
        launch<1>(x, gamma_data, beta_data, y, length, float(eps));
    }
    return y;
}
"""

extension = load_inline(
    name="kernelwright_layer_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["layer_norm"],
    extra_cuda_cflags=["-O3"],
)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dims: int, eps: float
) -> torch.Tensor:
    """`F.layer_norm` over the last `dims` dimensions of x; weight and bias so shaped or None."""
    y: torch.Tensor = extension.layer_norm(x, weight, bias, dims, eps)
    return y


class ModelNew(nn.Module):
    """Takes the constructor arguments of `Model` and has its state_dict keys."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.ln = nn.Module()
        self.ln.weight = nn.Parameter(torch.ones(hidden_size))
        self.ln.bias = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, self.get_parameter("ln.weight"), self.get_parameter("ln.bias"), 1, 1e-05)
