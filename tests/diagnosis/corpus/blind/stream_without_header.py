# about = "at::cuda::getCurrentCUDAStream without its header."
# section = "build"
# problem = "max_pool"
# causes = ["missing-include"]
# says = ["getCurrentCUDAStream|CUDAContext", "CUDAContext.h|CUDAStream.h"]
# stage = ["build"]
# line = "getCurrentCUDAStream"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

maxpool_source = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void maxpool2d_kernel(const float* in, float* out, int NC, int H, int W, int OH, int OW,
                                 int K, int stride, int pad) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= NC * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int nc = idx / (OW * OH);
    float best = -FLT_MAX;
    for (int kh = 0; kh < K; kh++) {
        for (int kw = 0; kw < K; kw++) {
            int ih = oh * stride - pad + kh;
            int iw = ow * stride - pad + kw;
            if (ih >= 0 && ih < H && iw >= 0 && iw < W) {
                best = fmaxf(best, in[(nc * H + ih) * W + iw]);
            }
        }
    }
    out[idx] = best;
}

torch::Tensor maxpool2d(torch::Tensor in, int K, int stride, int pad) {
    int N = in.size(0), C = in.size(1), H = in.size(2), W = in.size(3);
    int OH = (H + 2 * pad - K) / stride + 1;
    int OW = (W + 2 * pad - K) / stride + 1;
    auto out = torch::empty({N, C, OH, OW}, in.options());
    int total = N * C * OH * OW;
    maxpool2d_kernel<<<(total + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(in.data_ptr<float>(), out.data_ptr<float>(), N * C, H, W, OH, OW, K, stride, pad);
    return out;
}
"""

maxpool = load_inline(
    name="maxpool_ext",
    cpp_sources="torch::Tensor maxpool2d(torch::Tensor in, int K, int stride, int pad);",
    cuda_sources=maxpool_source,
    functions=["maxpool2d"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return maxpool.maxpool2d(x.contiguous(), 3, 2, 1)
