# about = "Every output channel reads the input channels of the first group."
# section = "mismatch"
# problem = "dilated_stem"
# causes = ["groups-ignored", "wrong-channel", "index-ignored"]
# says = ["group|channel|index"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

stem_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

#define K 3
#define DIL 2
#define PAD 2

__global__ void conv_bn_act_kernel(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    const float* __restrict__ mean,
    const float* __restrict__ var,
    const float* __restrict__ gamma,
    const float* __restrict__ beta,
    float* __restrict__ y,
    int N, int Cin, int Cout, int H, int W, int groups, float eps)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = N * Cout * H * W;
    if (idx >= total) return;
    int ow = idx % W;
    int oh = (idx / W) % H;
    int oc = (idx / (W * H)) % Cout;
    int n = idx / (W * H * Cout);

    int cin_g = Cin / groups;
    int cout_g = Cout / groups;
    int g = oc / cout_g;

    float acc = 0.0f;
    for (int ic = 0; ic < cin_g; ++ic) {
        for (int kh = 0; kh < K; ++kh) {
            int ih = oh - PAD + kh * DIL;
            if (ih < 0 || ih >= H) continue;
            for (int kw = 0; kw < K; ++kw) {
                int iw = ow - PAD + kw * DIL;
                if (iw < 0 || iw >= W) continue;
                float v = x[((n * Cin + ic) * H + ih) * W + iw];
                float f = weight[((oc * cin_g + ic) * K + kh) * K + kw];
                acc += v * f;
            }
        }
    }
    // batch norm with running statistics
    float inv_std = rsqrtf(var[oc] + eps);
    float z = (acc - mean[oc]) * inv_std * gamma[oc] + beta[oc];
    // hardswish
    float r = fminf(fmaxf(z + 3.0f, 0.0f), 6.0f);
    y[idx] = z * r / 6.0f;
}

__global__ void maxpool_kernel(const float* __restrict__ y, float* __restrict__ out, int planes, int H, int W, int OH, int OW)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int p = idx / (OW * OH);
    float best = -FLT_MAX;
    for (int kh = 0; kh < 3; ++kh) {
        for (int kw = 0; kw < 3; ++kw) {
            int ih = oh * 2 - 1 + kh;
            int iw = ow * 2 - 1 + kw;
            if (ih >= 0 && ih < H && iw >= 0 && iw < W) {
                best = fmaxf(best, y[(p * H + ih) * W + iw]);
            }
        }
    }
    out[idx] = best;
}

torch::Tensor stem_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma,
                           torch::Tensor beta, double eps, int64_t groups)
{
    int N = x.size(0), Cin = x.size(1), H = x.size(2), W = x.size(3);
    int Cout = weight.size(0);
    int OH = (H - 1) / 2 + 1, OW = (W - 1) / 2 + 1;
    auto y = torch::empty({N, Cout, H, W}, x.options());
    auto out = torch::empty({N, Cout, OH, OW}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    int total = N * Cout * H * W;
    conv_bn_act_kernel<<<(total + 255) / 256, 256, 0, stream>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
        gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), N, Cin, Cout, H, W, (int)groups, (float)eps);
    int pooled = N * Cout * OH * OW;
    maxpool_kernel<<<(pooled + 255) / 256, 256, 0, stream>>>(y.data_ptr<float>(), out.data_ptr<float>(), N * Cout, H, W, OH, OW);
    return out;
}
"""

stem_decl = """
torch::Tensor stem_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma,
                           torch::Tensor beta, double eps, int64_t groups);
"""

stem = load_inline(name="stem_forward", cpp_sources=stem_decl, cuda_sources=stem_source, functions=["stem_forward"])


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
        return stem.stem_forward(x.contiguous(), self.conv.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias,
                  norm.eps, self.conv.groups)
