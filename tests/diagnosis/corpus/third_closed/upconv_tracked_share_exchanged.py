# about = "The running statistics keep the share that belongs to the batch, and the batch enters with the rest."
# section = "mismatch"
# problem = "upconv_tracked"
# causes = ["wrong-decay", "weights-swapped", "operands-swapped"]
# says = ["decay|momentum|share|weight|swap|exchang|complement|1 - |mix|running"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// a block for an output channel of the whole batch; the channel stays in shared memory
__global__ void channel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ gain, const float* __restrict__ shift,
                        float* running_mean, float* running_var, float* __restrict__ y, const float share,
                        const int N, const int IC, const int OC, const int H, const int W) {
    extern __shared__ float buf[];
    __shared__ float part[2][32];
    const int OH = 2 * H - 1, OW = W + 2, area = OH * OW, n = N * area, oc = blockIdx.x;
    const int per_out = OC / 2, per_in = IC / 2, g = oc / per_out;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int b = i / area, oh = i % area / OW, ow = i % OW;
        float acc = 0.f;
        for (int kh = (oh + 1) % 2; kh < 3; kh += 2) {
            const int h = (oh + 1 - kh) / 2;
            if (oh + 1 < kh || h >= H) continue;
            for (int kw = 0; kw < 2; ++kw) {
                const int v = ow - 2 * kw;
                if (v < 0 || v >= W) continue;
                for (int c = 0; c < per_in; ++c)
                    acc += x[((b * IC + g * per_in + c) * H + h) * W + v] * w[(((g * per_in + c) * per_out + oc % per_out) * 3 + kh) * 2 + kw];
            }
        }
        buf[i] = acc;
        sum += acc;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) part[0][threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.f;
    for (int k = 0; k < blockDim.x / 32; ++k) sum += part[0][k];
    const float mean = sum / n;
    float sq = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sq += (buf[i] - mean) * (buf[i] - mean);
    for (int o = 16; o; o >>= 1) sq += __shfl_xor_sync(~0u, sq, o);
    if (threadIdx.x % 32 == 0) part[1][threadIdx.x / 32] = sq;
    __syncthreads();
    sq = 0.f;
    for (int k = 0; k < blockDim.x / 32; ++k) sq += part[1][k];
    if (threadIdx.x == 0) {
        running_mean[oc] = share * running_mean[oc] + (1.f - share) * mean;
        running_var[oc] = share * running_var[oc] + (1.f - share) * sq / (n - 1);
    }
    const float a = gain[oc] / sqrtf(sq / n + 1e-3f), c = shift[oc] - mean * a;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float v = fmaf(buf[i], a, c);
        y[((size_t)(i / area) * OC + oc) * area + i % area] = fmaxf(v, 0.1f * v);
    }
}

torch::Tensor channels(torch::Tensor x, torch::Tensor w, torch::Tensor gain, torch::Tensor shift, torch::Tensor rm, torch::Tensor rv, double share) {
    const int N = x.size(0), IC = x.size(1), H = x.size(2), W = x.size(3), OC = 2 * w.size(1);
    auto y = torch::empty({N, OC, 2 * H - 1, W + 2}, x.options());
    channel<<<OC, 64, N * (2 * H - 1) * (W + 2) * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(),
        gain.data_ptr<float>(), shift.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(), y.data_ptr<float>(), (float)share, N, IC, OC, H, W);
    return y;
}
"""
ext = load_inline("upconv_channels", cpp_sources="torch::Tensor channels(torch::Tensor x, torch::Tensor w, torch::Tensor gain, torch::Tensor shift, torch::Tensor rm, torch::Tensor rv, double share);",
                  cuda_sources=SRC, functions=["channels"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, share):
        super().__init__()
        self.up = nn.ConvTranspose2d(inner, outer, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False)
        self.weight = nn.Parameter(torch.rand(outer) + 0.5)
        self.bias = nn.Parameter(torch.randn(outer) * 0.4)
        self.share = share

    def forward(self, x, running_mean, running_var):
        y = ext.channels(x.contiguous(), self.up.weight, self.weight, self.bias, running_mean, running_var, self.share)
        return y, running_mean, running_var
