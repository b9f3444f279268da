# about = "Each block adds the total of the block before it, not of all blocks before it."
# section = "mismatch"
# problem = "cumsum_long"
# causes = ["scan-restarts", "partial-sums-not-combined"]
# says = ["block|tile|chunk|512|earlier|carr"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
constexpr int CHUNK = 512;

__global__ void scan_chunks(const float* x, float* y, float* totals, int n, int chunks) {
    __shared__ float buf[2][CHUNK];
    int row = blockIdx.y, chunk = blockIdx.x, t = threadIdx.x;
    int i = chunk * CHUNK + t;
    int cur = 0;
    buf[cur][t] = i < n ? x[(long)row * n + i] : 0.f;
    __syncthreads();
    for (int d = 1; d < CHUNK; d <<= 1) {
        float v = buf[cur][t];
        if (t >= d) v += buf[cur][t - d];
        buf[cur ^ 1][t] = v;
        cur ^= 1;
        __syncthreads();
    }
    if (i < n) y[(long)row * n + i] = buf[cur][t];
    if (t == CHUNK - 1) totals[row * chunks + chunk] = buf[cur][t];
}

__global__ void add_offsets(float* y, const float* totals, int n, int chunks) {
    int row = blockIdx.y, chunk = blockIdx.x + 1;
    int i = chunk * CHUNK + threadIdx.x;
    if (i < n) y[(long)row * n + i] += totals[row * chunks + chunk - 1];
}

torch::Tensor row_cumsum(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1);
    int chunks = (n + CHUNK - 1) / CHUNK;
    auto y = torch::empty_like(x);
    auto totals = torch::empty({rows, chunks}, x.options());
    scan_chunks<<<dim3(chunks, rows), CHUNK>>>(x.data_ptr<float>(), y.data_ptr<float>(), totals.data_ptr<float>(), n,
                                               chunks);
    if (chunks > 1)
        add_offsets<<<dim3(chunks - 1, rows), CHUNK>>>(y.data_ptr<float>(), totals.data_ptr<float>(), n, chunks);
    return y;
}
"""

ops = load_inline(
    name="row_cumsum",
    cpp_sources="torch::Tensor row_cumsum(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["row_cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ops.row_cumsum(x.contiguous())
