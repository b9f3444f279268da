# about = "The product and the bias are divided by the singular value together; the reference divides the weight alone."
# section = "mismatch"
# problem = "spectral_linear"
# causes = ["activation-order", "weight-wrong-place", "scale-doubled", "wrong-divisor"]
# says = ["bias|order|scal|divi|factor|weight|place|before|after"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__inline__ __device__ float warp_sum(float v) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

// single warp; at most 64 inputs and 32 outputs
__global__ void estimate(const float* w, const float* u, float* u_out, float* inv_sigma, int outs, int ins) {
    __shared__ float v[64];
    const int lane = threadIdx.x;
    float sq = 0.f;
    for (int i = lane; i < ins; i += 32) {
        float s = 0.f;
        for (int o = 0; o < outs; ++o) s += w[o * ins + i] * u[o];
        v[i] = s;
        sq += s * s;
    }
    const float inv_v = rsqrtf(fmaxf(warp_sum(sq), 1e-24f));
    __syncwarp();
    float s = 0.f;
    if (lane < outs)
        for (int i = 0; i < ins; ++i) s += w[lane * ins + i] * v[i] * inv_v;
    const float norm = sqrtf(warp_sum(s * s));
    if (lane < outs) u_out[lane] = s / fmaxf(norm, 1e-12f);
    // u . W v is the length of W v
    if (lane == 0) *inv_sigma = 1.f / norm;
}

__global__ void spectral_linear(const float* x, const float* w, const float* bias, const float* inv_sigma, float* y, int ins, int outs) {
    extern __shared__ float row[];
    const int r = blockIdx.x;
    for (int i = threadIdx.x; i < ins; i += blockDim.x) row[i] = x[r * ins + i];
    __syncthreads();
    for (int o = threadIdx.x; o < outs; o += blockDim.x) {
        float acc = bias[o];
        for (int i = 0; i < ins; ++i) acc += row[i] * w[o * ins + i];
        acc *= *inv_sigma;
        y[r * outs + o] = acc >= 0.f ? acc : 0.2f * acc;
    }
}

std::vector<torch::Tensor> spectral_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor u) {
    const int rows = x.size(0), ins = x.size(1), outs = w.size(0);
    TORCH_CHECK(ins <= 64 && outs <= 32, "layer too large");
    auto u_out = torch::empty_like(u);
    auto inv = torch::empty({1}, x.options());
    auto y = torch::empty({rows, outs}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    estimate<<<1, 32, 0, stream>>>(w.data_ptr<float>(), u.data_ptr<float>(), u_out.data_ptr<float>(), inv.data_ptr<float>(), outs, ins);
    spectral_linear<<<rows, 32, ins * sizeof(float), stream>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(),
                                                               inv.data_ptr<float>(), y.data_ptr<float>(), ins, outs);
    return {y, u_out};
}
"""

spectral = load_inline(
    name="spectral_forward",
    cpp_sources="std::vector<torch::Tensor> spectral_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor u);",
    cuda_sources=cuda_src,
    functions=["spectral_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, u):
        out = spectral.spectral_forward(x.contiguous(), self.weight.contiguous(), self.bias.contiguous(), u.contiguous())
        return out[0], out[1]
