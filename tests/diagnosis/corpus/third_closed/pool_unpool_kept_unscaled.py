# about = "What the mask keeps is not divided by the share that is kept."
# section = "mismatch"
# problem = "pool_unpool_drop"
# causes = ["scale-missing", "operator-missing", "wrong-divisor"]
# says = ["scale|factor|divis|divid|keep|0\\.8|1\\.25|operator"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

template <int KH, int KW>
__global__ void pool(const float* __restrict__ x, float* __restrict__ values, int64_t* __restrict__ places, int H, int W, int OH, int OW) {
    const int oh = blockIdx.y, plane = blockIdx.x;
    for (int ow = threadIdx.x; ow < OW; ow += blockDim.x) {
        const float* p = x + (size_t)plane * H * W;
        int where = oh * KH * W + ow * KW;
        #pragma unroll
        for (int i = 0; i < KH; ++i)
            #pragma unroll
            for (int j = 0; j < KW; ++j) {
                const int h = oh * KH + i, w = ow * KW + j;
                if (h < H && w < W && p[h * W + w] > p[where]) where = h * W + w;
            }
        const size_t o = ((size_t)plane * OH + oh) * OW + ow;
        values[o] = p[where];
        places[o] = where;
    }
}

__global__ void unpool_add(const float* values, const int64_t* places, const float* mask, float* y, int per_plane, int plane_size, int channels, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int plane = i / per_plane;
    if (mask[plane / channels] != 0.f) y[(size_t)plane * plane_size + places[i]] += values[i];
}

std::vector<torch::Tensor> drop_path_pool(torch::Tensor x, torch::Tensor mask, double keep) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), OH = (H + 1) / 2, OW = (W + 2) / 3;
    auto values = torch::empty({N, C, OH, OW}, x.options());
    auto places = torch::empty({N, C, OH, OW}, x.options().dtype(torch::kInt64));
    auto y = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    cudaMemcpyAsync(y.data_ptr<float>(), x.data_ptr<float>(), x.numel() * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    pool<2, 3><<<dim3(N * C, OH), 32, 0, stream>>>(x.data_ptr<float>(), values.data_ptr<float>(), places.data_ptr<int64_t>(), H, W, OH, OW);
    const int n = values.numel();
    unpool_add<<<(n + 255) / 256, 256, 0, stream>>>(values.data_ptr<float>(), places.data_ptr<int64_t>(), mask.data_ptr<float>(),
                                                    y.data_ptr<float>(), OH * OW, H * W, C, n);
    return {y, places};
}
"""
ext = load_inline("drop_path_pool", cpp_sources="std::vector<torch::Tensor> drop_path_pool(torch::Tensor x, torch::Tensor mask, double keep);",
                  cuda_sources=SRC, functions=["drop_path_pool"])


class ModelNew(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep = keep

    def forward(self, x, mask):
        return tuple(ext.drop_path_pool(x.contiguous(), mask, self.keep))
