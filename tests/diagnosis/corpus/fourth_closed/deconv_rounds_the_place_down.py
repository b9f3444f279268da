# about = "An output between two strides takes the input at the rounded place, where it has none: the remainder is not asked for."
# section = "mismatch"
# problem = "deconv_group_norm"
# causes = ["stride-ignored", "wrong-rounding", "truncated-to-integer", "wrong-coordinate", "mask-ignored"]
# says = ["stride|remainder|modul|floor|round|divis|multiple|trunc|fraction|even"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// gather form: which inputs reach this output?
__global__ void deconv_kernel(const float* __restrict__ input, const float* __restrict__ weight, const float* __restrict__ bias,
                              float* __restrict__ output, int N, int Cin, int Cout, int H, int W, int OH, int OW, int groups) {
    const int stride = 2, pad = 1, ksize = 3;
    int ox = blockIdx.x * blockDim.x + threadIdx.x;
    int oy = blockIdx.y * blockDim.y + threadIdx.y;
    int n = blockIdx.z / Cout;
    int oc = blockIdx.z % Cout;
    if (ox >= OW || oy >= OH) return;
    int in_per = Cin / groups;
    int out_per = Cout / groups;
    int g = oc / out_per;
    float sum = bias[oc];
    for (int i = 0; i < in_per; ++i) {
        int ic = g * in_per + i;
        for (int ky = 0; ky < ksize; ++ky) {
            int ty = oy + pad - ky;
            if (ty < 0) continue;
            int iy = ty / stride;
            if (iy >= H) continue;
            for (int kx = 0; kx < ksize; ++kx) {
                int tx = ox + pad - kx;
                if (tx < 0) continue;
                int ix = tx / stride;
                if (ix >= W) continue;
                sum += input[((n * Cin + ic) * H + iy) * W + ix] *
                       weight[((ic * out_per + oc % out_per) * ksize + ky) * ksize + kx];
            }
        }
    }
    output[((n * Cout + oc) * OH + oy) * OW + ox] = sum;
}

__global__ void group_norm_silu_kernel(float* __restrict__ data, const float* __restrict__ gamma, const float* __restrict__ beta,
                                       int C, int HW, int groups, float eps) {
    __shared__ float shared_sum[32];
    __shared__ float shared_sq[32];
    int n = blockIdx.x / groups;
    int g = blockIdx.x % groups;
    int cpg = C / groups;
    int count = cpg * HW;
    float* base = data + (n * C + g * cpg) * HW;
    float sum = 0.0f, sq = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += base[i];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (lane == 0) shared_sum[warp] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < warps; ++w) total += shared_sum[w];
    float mean = total / count;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float d = base[i] - mean;
        sq += d * d;
    }
    for (int o = 16; o > 0; o >>= 1) sq += __shfl_down_sync(0xffffffff, sq, o);
    if (lane == 0) shared_sq[warp] = sq;
    __syncthreads();
    float total_sq = 0.0f;
    for (int w = 0; w < warps; ++w) total_sq += shared_sq[w];
    float inv = rsqrtf(total_sq / count + eps);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int c = g * cpg + i / HW;
        float v = (base[i] - mean) * inv * gamma[c] + beta[c];
        base[i] = v / (1.0f + expf(-v));
    }
}

torch::Tensor decoder_stage(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, torch::Tensor gamma,
                            torch::Tensor beta, int64_t conv_groups, int64_t norm_groups, double eps) {
    int N = input.size(0), Cin = input.size(1), H = input.size(2), W = input.size(3);
    int Cout = weight.size(1) * conv_groups;
    int OH = (H - 1) * 2 - 2 + 3 + 1, OW = (W - 1) * 2 - 2 + 3 + 1;
    auto output = torch::empty({N, Cout, OH, OW}, input.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    dim3 block(16, 8);
    dim3 grid((OW + 15) / 16, (OH + 7) / 8, N * Cout);
    deconv_kernel<<<grid, block, 0, stream>>>(input.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                              output.data_ptr<float>(), N, Cin, Cout, H, W, OH, OW, (int)conv_groups);
    group_norm_silu_kernel<<<N * norm_groups, 128, 0, stream>>>(output.data_ptr<float>(), gamma.data_ptr<float>(),
                                                                beta.data_ptr<float>(), Cout, OH * OW, (int)norm_groups,
                                                                (float)eps);
    return output;
}
"""

cpp_source = """
torch::Tensor decoder_stage(torch::Tensor input, torch::Tensor weight, torch::Tensor bias, torch::Tensor gamma,
                            torch::Tensor beta, int64_t conv_groups, int64_t norm_groups, double eps);
"""

decoder = load_inline(name="decoder_stage", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["decoder_stage"],
                      extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, wide, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.norm = nn.GroupNorm(4, wide)

    def forward(self, x):
        return decoder.decoder_stage(x.contiguous(), self.up.weight, self.up.bias, self.norm.weight, self.norm.bias,
                                     self.up.groups, self.norm.num_groups, self.norm.eps)
