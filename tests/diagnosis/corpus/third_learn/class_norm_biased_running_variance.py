# about = "The running variance takes in the variance over n, where the reference takes in that over n - 1."
# section = "mismatch"
# problem = "class_batch_norm"
# causes = ["biased-variance", "wrong-divisor", "wrong-coefficient"]
# says = ["biased|n - 1|divi|variance|bessel|factor"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

// A warp per channel does it all: mean, variance, running statistics and the normalised output.
__global__ void channel_kernel(const float* __restrict__ x, const int64_t* __restrict__ labels, const float* __restrict__ gain,
                               const float* __restrict__ shift, float* __restrict__ running_mean, float* __restrict__ running_var,
                               float* __restrict__ y, int batch, int channels, int length, float momentum, float eps) {
    const int c = blockIdx.x, lane = threadIdx.x;
    const float n = (float)(batch * length);
    float mean = 0.f, var = 0.f;
    for (int b = 0; b < batch; ++b)
        for (int l = lane; l < length; l += 32) mean += x[(b * channels + c) * length + l];
    for (int o = 16; o > 0; o >>= 1) mean += __shfl_xor_sync(0xffffffffu, mean, o);
    mean /= n;
    for (int b = 0; b < batch; ++b)
        for (int l = lane; l < length; l += 32) {
            const float d = x[(b * channels + c) * length + l] - mean;
            var = fmaf(d, d, var);
        }
    for (int o = 16; o > 0; o >>= 1) var += __shfl_xor_sync(0xffffffffu, var, o);
    var /= n;
    if (lane == 0) {
        running_mean[c] = (1.f - momentum) * running_mean[c] + momentum * mean;
        running_var[c] = (1.f - momentum) * running_var[c] + momentum * var;
    }
    const float inverse = 1.f / sqrtf(var + eps);
    for (int b = 0; b < batch; ++b) {
        const int row = (int)labels[b] * channels + c;
        const float g = (1.f + gain[row]) * inverse, s = shift[row];
        for (int l = lane; l < length; l += 32) {
            const int i = (b * channels + c) * length + l;
            y[i] = (x[i] - mean) * g + s;
        }
    }
}

torch::Tensor class_norm(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean,
                         torch::Tensor running_var, double momentum, double eps) {
    auto y = torch::empty_like(x);
    channel_kernel<<<x.size(1), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), labels.data_ptr<int64_t>(), gain.data_ptr<float>(), shift.data_ptr<float>(), running_mean.data_ptr<float>(),
        running_var.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), x.size(2), momentum, eps);
    return y;
}
"""
ext = load_inline(
    name="class_norm_warp",
    cpp_sources="torch::Tensor class_norm(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean, torch::Tensor running_var, double momentum, double eps);",
    cuda_sources=CUDA,
    functions=["class_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, channels, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gain = nn.Parameter(torch.zeros(classes, channels))
        self.shift = nn.Parameter(torch.zeros(classes, channels))

    def forward(self, x, labels, running_mean, running_var):
        y = ext.class_norm(x.contiguous(), labels, self.gain, self.shift, running_mean, running_var, self.momentum, self.eps)
        return y, running_mean.clone(), running_var.clone()
