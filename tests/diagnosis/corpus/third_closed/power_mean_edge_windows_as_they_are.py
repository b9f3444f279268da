# about = "The squares of a window that passes the edge are summed as they are; the reference scales them up to nine."
# section = "mismatch"
# problem = "power_mean_channels"
# causes = ["pool-divisor", "wrong-divisor", "scale-missing", "pool-window", "sum-for-mean"]
# says = ["count|divis|divid|edge|window|border|clip|ceil|factor|scale"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
constexpr int K = 3, S = 2;

// blockIdx.x: plane, a thread for each window; the plane lies in shared memory
__global__ void pools(const float* __restrict__ x, const float* __restrict__ gain, float* __restrict__ out,
                      const int C, const int H, const int W, const int OH, const int OW, const float scale) {
    extern __shared__ float plane[];
    const int nc = blockIdx.x, n = nc / C, c = nc % C;
    for (int i = threadIdx.x; i < H * W; i += blockDim.x) plane[i] = x[(size_t)nc * H * W + i];
    __syncthreads();
    for (int o = threadIdx.x; o < OH * OW; o += blockDim.x) {
        const int top = o / OW * S, left = o % OW * S;
        float s = 0.f, q = 0.f;
        #pragma unroll
        for (int k = 0; k < K * K; ++k) {
            const int h = top + k / K, w = left + k % K;
            if (h < H && w < W) {
                const float v = plane[h * W + w];
                s += v;
                const float r = fmaxf(v, 0.f);
                q = fmaf(r, r, q);
            }
        }
        float* y = out + ((size_t)n * 2 * C + c) * OH * OW + o;
        y[0] = gain[c] * sqrtf(q);
        y[(size_t)C * OH * OW] = gain[C + c] * s * scale;
    }
}

torch::Tensor both_pools(torch::Tensor x, torch::Tensor gain, double divisor) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const int OH = (H - K + S - 1) / S + 1, OW = (W - K + S - 1) / S + 1;
    auto out = torch::empty({N, 2 * C, OH, OW}, x.options());
    pools<<<N * C, 64, H * W * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), gain.data_ptr<float>(),
        out.data_ptr<float>(), C, H, W, OH, OW, (float)(1.0 / divisor));
    return out;
}
"""
ext = load_inline("both_pools", cpp_sources="torch::Tensor both_pools(torch::Tensor x, torch::Tensor gain, double divisor);", cuda_sources=SRC, functions=["both_pools"])


class ModelNew(nn.Module):
    def __init__(self, channels, divisor):
        super().__init__()
        self.divisor = divisor
        self.gain = nn.Parameter(torch.rand(2 * channels) + 0.5)

    def forward(self, x):
        return ext.both_pools(x.contiguous(), self.gain, self.divisor)
