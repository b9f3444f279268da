# about = "The running variance takes in the biased variance of the batch; the reference takes the unbiased one."
# section = "mismatch"
# problem = "upconv_tracked"
# causes = ["biased-variance", "wrong-divisor"]
# says = ["bias|n - 1|n-1|Bessel|divis|divid|count|correct"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void up_conv(const float* x, const float* w, float* y, int N, int IC, int OC, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OC * OH * OW) return;
    int ow = idx % OW, oh = (idx / OW) % OH, oc = (idx / (OW * OH)) % OC, n = idx / (OW * OH * OC);
    int opg = OC / 2, ipg = IC / 2, g = oc / opg;
    float sum = 0.0f;
    for (int kh = 0; kh < 3; kh++) {
        int h = oh + 1 - kh;
        if (h < 0 || h % 2 != 0 || h / 2 >= H) continue;
        h /= 2;
        for (int kw = 0; kw < 2; kw++) {
            int v = ow - kw * 2;
            if (v < 0 || v >= W) continue;
            for (int i = 0; i < ipg; i++) {
                int ic = g * ipg + i;
                sum += x[((n * IC + ic) * H + h) * W + v] * w[((ic * opg + oc % opg) * 3 + kh) * 2 + kw];
            }
        }
    }
    y[idx] = sum;
}

__global__ void norm(float* y, const float* weight, const float* bias, float* running_mean, float* running_var, float share, int N, int C, int area) {
    __shared__ float s1[128], s2[128];
    int c = blockIdx.x, tid = threadIdx.x, n = N * area;
    float a = 0.0f;
    for (int i = tid; i < n; i += blockDim.x) a += y[(i / area * C + c) * area + i % area];
    s1[tid] = a;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (tid < s) s1[tid] += s1[tid + s];
        __syncthreads();
    }
    float mean = s1[0] / n;
    float q = 0.0f;
    for (int i = tid; i < n; i += blockDim.x) {
        float d = y[(i / area * C + c) * area + i % area] - mean;
        q += d * d;
    }
    s2[tid] = q;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (tid < s) s2[tid] += s2[tid + s];
        __syncthreads();
    }
    float var = s2[0] / n;
    float inv = rsqrtf(var + 1e-3f);
    if (tid == 0) {
        running_mean[c] = (1 - share) * running_mean[c] + share * mean;
        running_var[c] = (1 - share) * running_var[c] + share * var;
    }
    for (int i = tid; i < n; i += blockDim.x) {
        int at = (i / area * C + c) * area + i % area;
        float v = (y[at] - mean) * inv * weight[c] + bias[c];
        y[at] = v > 0 ? v : 0.1f * v;
    }
}

torch::Tensor up_norm(torch::Tensor x, torch::Tensor w, torch::Tensor weight, torch::Tensor bias, torch::Tensor rm, torch::Tensor rv, double share) {
    int N = x.size(0), IC = x.size(1), H = x.size(2), W = x.size(3), OC = w.size(1) * 2;
    int OH = (H - 1) * 2 - 2 + 3, OW = W + 2;
    auto y = torch::empty({N, OC, OH, OW}, x.options());
    up_conv<<<(y.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), N, IC, OC, H, W, OH, OW);
    norm<<<OC, 128>>>(y.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), rm.data_ptr<float>(), rv.data_ptr<float>(), (float)share, N, OC, OH * OW);
    return y;
}
"""

cpp_source = "torch::Tensor up_norm(torch::Tensor x, torch::Tensor w, torch::Tensor weight, torch::Tensor bias, torch::Tensor rm, torch::Tensor rv, double share);"
up_norm = load_inline(name="up_norm", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["up_norm"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, share):
        super().__init__()
        self.up = nn.ConvTranspose2d(inner, outer, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False)
        self.weight = nn.Parameter(torch.rand(outer) + 0.5)
        self.bias = nn.Parameter(torch.randn(outer) * 0.4)
        self.share = share

    def forward(self, x, running_mean, running_var):
        y = up_norm.up_norm(x.contiguous(), self.up.weight, self.weight, self.bias, running_mean, running_var, self.share)
        return y, running_mean, running_var
