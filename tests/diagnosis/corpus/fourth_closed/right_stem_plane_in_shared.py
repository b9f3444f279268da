# about = "Right: one block per plane, the norm folded to a scale and a shift, the pool from shared memory."
# section = "right"
# problem = "dilated_stem"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <math_constants.h>

// One block computes one plane of one sample: the activations stay in shared memory and are pooled there.
template <int TAPS, int DILATION>
__global__ void plane(const float* x, const float* w, const float* mean, const float* var, const float* gamma,
                      const float* beta, float* out, int cin, int cout, int h, int wd, int groups, float eps) {
    extern __shared__ float act[];
    const int o = blockIdx.x, n = blockIdx.y;
    const int per_in = cin / groups, g = o / (cout / groups);
    const float* planes = x + ((size_t)n * cin + g * per_in) * h * wd;
    const float* filter = w + (size_t)o * per_in * TAPS * TAPS;
    const float scale = gamma[o] / sqrtf(var[o] + eps);
    const float shift = beta[o] - mean[o] * scale;
    for (int p = threadIdx.x; p < h * wd; p += blockDim.x) {
        const int r = p / wd, c = p % wd;
        float sum = 0.f;
        for (int i = 0; i < per_in; ++i)
            #pragma unroll
            for (int t = 0; t < TAPS * TAPS; ++t) {
                const int rr = r + (t / TAPS - TAPS / 2) * DILATION, cc = c + (t % TAPS - TAPS / 2) * DILATION;
                if ((unsigned)rr < (unsigned)h && (unsigned)cc < (unsigned)wd)
                    sum = fmaf(planes[(i * h + rr) * wd + cc], filter[i * TAPS * TAPS + t], sum);
            }
        const float z = fmaf(sum, scale, shift);
        act[p] = z * __saturatef(z * (1.f / 6.f) + 0.5f);
    }
    __syncthreads();
    const int oh = (h + 1) / 2, ow = (wd + 1) / 2;
    float* dst = out + ((size_t)n * cout + o) * oh * ow;
    for (int p = threadIdx.x; p < oh * ow; p += blockDim.x) {
        const int r = p / ow * 2, c = p % ow * 2;
        float top = -CUDART_INF_F;
        for (int rr = max(r - 1, 0); rr <= min(r + 1, h - 1); ++rr)
            for (int cc = max(c - 1, 0); cc <= min(c + 1, wd - 1); ++cc) top = fmaxf(top, act[rr * wd + cc]);
        dst[p] = top;
    }
}

torch::Tensor planes(torch::Tensor x, torch::Tensor w, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma,
                     torch::Tensor beta, double eps, int64_t groups) {
    const int n = x.size(0), cin = x.size(1), h = x.size(2), wd = x.size(3), cout = w.size(0);
    auto out = torch::zeros({n, cout, (h + 1) / 2, (wd + 1) / 2}, x.options());
    plane<3, 2><<<dim3(cout, n), 96, h * wd * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(), gamma.data_ptr<float>(),
        beta.data_ptr<float>(), out.data_ptr<float>(), cin, cout, h, wd, groups, eps);
    return out;
}
"""

CPP = """torch::Tensor planes(torch::Tensor x, torch::Tensor w, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma,
                     torch::Tensor beta, double eps, int64_t groups);"""
kernels = load_inline("stem_planes", CPP, SOURCE, functions=["planes"])


class ModelNew(nn.Module):
    def __init__(self, channels, wide, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, wide, 3, padding=2, dilation=2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(wide, eps=0.01)
        self.norm.running_mean.normal_(0, 0.3)
        self.norm.running_var.uniform_(0.1, 0.6)
        self.norm.eval()

    def forward(self, x):
        norm = self.norm
        return kernels.planes(x.contiguous(), self.conv.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias,
                  norm.eps, self.conv.groups)
