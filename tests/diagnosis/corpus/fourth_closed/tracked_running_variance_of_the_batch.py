# about = "The running variance takes in the variance over n, where the reference takes that over n - 1."
# section = "mismatch"
# problem = "norm_pool_tracked"
# causes = ["biased-variance", "wrong-divisor"]
# says = ["bias|n - 1|n-1|divi|bessel|correct|count"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <c10/cuda/CUDAStream.h>

namespace {

struct Plan { int n, c, h, w, oh, ow; };

__device__ float response(const float* x, const Plan& p, int n, int c, int at) {
    const int area = p.h * p.w;
    const float* column = x + (long)n * p.c * area + at;
    float squares = 0.f;
    for (int d = -2; d <= 1; ++d)
        if (c + d >= 0 && c + d < p.c) squares = fmaf(column[(c + d) * area], column[(c + d) * area], squares);
    const float base = 1.f + 2.f * squares / 4.f;
    return column[c * area] / sqrtf(base * sqrtf(base));       // base to the power 3/4
}

// one block per channel does everything: pooled responses stay in shared memory
__global__ void channel(const float* x, const float* weight, const float* bias, const float* mean_in, const float* var_in,
                        float* y, float* mean_out, float* var_out, Plan p, float momentum) {
    extern __shared__ float pooled[];
    __shared__ float part[96];
    const int c = blockIdx.x, t = threadIdx.x, area = p.oh * p.ow, count = p.n * area;
    float s = 0.f;
    for (int i = t; i < count; i += 96) {
        const int q = i % p.ow, r = i / p.ow % p.oh, n = i / area;
        float sum = 0.f;
        int inside = 0;
        for (int k = 0; k < 6; ++k) {
            const int row = 2 * r - 1 + k / 2, col = 2 * q + k % 2;
            if (row < 0 || row >= p.h || col >= p.w) continue;
            sum += response(x, p, n, c, row * p.w + col);
            ++inside;
        }
        pooled[i] = sum / inside;
        s += pooled[i];
    }
    part[t] = s;
    __syncthreads();
    float mean = 0.f;
    for (int i = 0; i < 96; ++i) mean += part[i];
    mean /= count;
    __syncthreads();
    s = 0.f;
    for (int i = t; i < count; i += 96) s += (pooled[i] - mean) * (pooled[i] - mean);
    part[t] = s;
    __syncthreads();
    float squares = 0.f;
    for (int i = 0; i < 96; ++i) squares += part[i];
    const float scale = weight[c] * rsqrtf(squares / count + 1e-5f);
    for (int i = t; i < count; i += 96) y[((i / area) * p.c + c) * area + i % area] = (pooled[i] - mean) * scale + bias[c];
    if (t == 0) {
        mean_out[c] = mean_in[c] + momentum * (mean - mean_in[c]);
        var_out[c] = var_in[c] + momentum * (squares / count - var_in[c]);
    }
}

}  // namespace

void track(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor mean_in, torch::Tensor var_in,
           torch::Tensor y, torch::Tensor mean_out, torch::Tensor var_out, double momentum) {
    const Plan p{(int)x.size(0), (int)x.size(1), (int)x.size(2), (int)x.size(3), (int)y.size(2), (int)y.size(3)};
    channel<<<p.c, 96, p.n * p.oh * p.ow * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), mean_in.data_ptr<float>(),
        var_in.data_ptr<float>(), y.data_ptr<float>(), mean_out.data_ptr<float>(), var_out.data_ptr<float>(), p, momentum);
}
"""
CPP = """
void track(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor mean_in, torch::Tensor var_in,
           torch::Tensor y, torch::Tensor mean_out, torch::Tensor var_out, double momentum);
"""
tracker = load_inline("channel_tracker", CPP, SRC, functions=["track"])


class ModelNew(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.momentum = momentum

    def forward(self, x, mean, var):
        n, c, h, w = x.shape
        y = torch.empty(n, c, (h + 1) // 2, (w + 1) // 2, device=x.device)
        new_mean, new_var = torch.empty_like(mean), torch.empty_like(var)
        tracker.track(x.contiguous(), self.weight, self.bias, mean.contiguous(), var.contiguous(), y, new_mean, new_var,
                      self.momentum)
        return y, new_mean, new_var
