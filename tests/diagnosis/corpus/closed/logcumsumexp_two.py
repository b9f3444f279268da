# about = "Base 2 in place of e, and the tiles of 64 forget what came before."
# section = "mismatch"
# problem = "logcumsumexp_rows"
# faults = [{causes = ["base-2-for-e"], says = ["base|exp2|log2"]}, {causes = ["scan-restarts", "partial-sums-not-combined"], says = ["tile|block|64|carr|restart|earlier"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
namespace {

constexpr int kTile = 64;

struct Acc {
    float m;
    float s;
};

__device__ __forceinline__ Acc merge(Acc a, Acc b) {
    float m = fmaxf(a.m, b.m);
    return {m, a.s * exp2f(a.m - m) + b.s * exp2f(b.m - m)};
}

__global__ void tile_scan(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ Acc acc[kTile];
    int c = blockIdx.x * kTile + threadIdx.x;
    long at = (long)blockIdx.y * cols + c;
    bool inside = c < cols;
    acc[threadIdx.x] = Acc{inside ? x[at] : -1e30f, inside ? 1.f : 0.f};
    __syncthreads();
    for (int d = 1; d < kTile; d <<= 1) {
        Acc mine = acc[threadIdx.x];
        if ((int)threadIdx.x >= d) mine = merge(acc[threadIdx.x - d], mine);
        __syncthreads();
        acc[threadIdx.x] = mine;
        __syncthreads();
    }
    if (inside) y[at] = acc[threadIdx.x].m + log2f(acc[threadIdx.x].s);
}

}  // namespace

torch::Tensor forward_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    dim3 grid((x.size(1) + kTile - 1) / kTile, x.size(0));
    tile_scan<<<grid, kTile>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

extension = load_inline(
    name="tile_scan_lse",
    cpp_sources="torch::Tensor forward_cuda(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["forward_cuda"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.forward_cuda(x.contiguous())
