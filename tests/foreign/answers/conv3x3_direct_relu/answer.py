import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

conv_cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

// Direct convolution. A block makes a 16x16 output tile for OCB output channels of one image.
template <int K, int OCB>
__global__ void conv_relu_add(const float* __restrict__ x, const float* __restrict__ w,
                              const float* __restrict__ cb, const float* __restrict__ extra,
                              float* __restrict__ y, int Cin, int Cout, int H, int W, int tiles_x) {
    constexpr int T = 16;
    constexpr int R = K / 2;
    constexpr int IT = T + 2 * R;
    __shared__ float tile[IT][IT + 1];
    __shared__ float wk[OCB][K * K];

    const int ty = blockIdx.x / tiles_x, tx = blockIdx.x % tiles_x;
    const int oc0 = blockIdx.y * OCB;
    const int n = blockIdx.z;
    const int oh = ty * T + threadIdx.y, ow = tx * T + threadIdx.x;
    const int tid = threadIdx.y * T + threadIdx.x;

    float acc[OCB];
    #pragma unroll
    for (int o = 0; o < OCB; ++o) acc[o] = 0.f;

    for (int c = 0; c < Cin; ++c) {
        const float* src = x + ((size_t)n * Cin + c) * H * W;
        for (int e = tid; e < IT * IT; e += T * T) {
            const int r = e / IT, q = e % IT;
            const int h = ty * T + r - R, v = tx * T + q - R;
            tile[r][q] = (h >= 0 && h < H && v >= 0 && v < W) ? src[h * W + v] : 0.f;
        }
        for (int e = tid; e < OCB * K * K; e += T * T) {
            const int o = e / (K * K), k = e % (K * K);
            wk[o][k] = (oc0 + o < Cout) ? w[((size_t)(oc0 + o) * Cin + c) * K * K + k] : 0.f;
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < K; ++i) {
            #pragma unroll
            for (int j = 0; j < K; ++j) {
                const float v = tile[threadIdx.y + i][threadIdx.x + j];
                #pragma unroll
                for (int o = 0; o < OCB; ++o) acc[o] = fmaf(v, wk[o][i * K + j], acc[o]);
            }
        }
        __syncthreads();
    }
    if (oh < H && ow < W) {
        #pragma unroll
        for (int o = 0; o < OCB; ++o) {
            const int oc = oc0 + o;
            if (oc < Cout)
                y[(((size_t)n * Cout + oc) * H + oh) * W + ow] = fmaxf(acc[o] + cb[oc], 0.f) + extra[oc];
        }
    }
}

torch::Tensor conv_relu_add_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor cb, torch::Tensor extra) {
    TORCH_CHECK(x.dim() == 4 && w.dim() == 4, "expects NCHW input and OIHW weights");
    auto xc = x.contiguous(); auto wc = w.contiguous(); auto cbc = cb.contiguous(); auto ec = extra.contiguous();
    const int N = xc.size(0), Cin = xc.size(1), H = xc.size(2), W = xc.size(3);
    const int Cout = wc.size(0), K = wc.size(2);
    auto y = torch::empty({N, Cout, H, W}, xc.options());
    const int tiles_x = (W + 15) / 16, tiles_y = (H + 15) / 16;
    dim3 block(16, 16);
    dim3 grid(tiles_x * tiles_y, (Cout + 7) / 8, N);
    auto st = at::cuda::getCurrentCUDAStream();
    TORCH_CHECK(K == 3, "padding 1 keeps the size only for 3x3 kernels");
    conv_relu_add<3, 8><<<grid, block, 0, st>>>(xc.data_ptr<float>(), wc.data_ptr<float>(), cbc.data_ptr<float>(),
                                                ec.data_ptr<float>(), y.data_ptr<float>(), Cin, Cout, H, W, tiles_x);
    return y;
}
"""

conv_cpp_source = """
torch::Tensor conv_relu_add_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor cb, torch::Tensor extra);
"""

conv_ops = load_inline(
    name="conv3x3_direct_relu_ops",
    cpp_sources=conv_cpp_source,
    cuda_sources=conv_cuda_source,
    functions=["conv_relu_add_cuda"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=1)
        self.offset = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        return conv_ops.conv_relu_add_cuda(x, self.conv.weight, self.conv.bias, self.offset)
