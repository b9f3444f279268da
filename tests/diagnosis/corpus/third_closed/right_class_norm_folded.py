# about = "Right: sums of each sample first, combined over the batch, then one factor and one offset for each sample and channel."
# section = "right"
# problem = "class_batch_norm"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// parts[b][c] = (mean, sum of squared deviations) of one row
__global__ void rows(const float* x, double2* parts, int count, int length) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= count) return;
    double mean = 0, m2 = 0;
    for (int l = 0; l < length; ++l) mean += x[r * length + l];
    mean /= length;
    for (int l = 0; l < length; ++l) m2 += (x[r * length + l] - mean) * (x[r * length + l] - mean);
    parts[r] = make_double2(mean, m2);
}

__global__ void fold(const double2* parts, const int64_t* labels, const float* gain, const float* shift, float* running_mean,
                     float* running_var, float2* lines, int batch, int channels, int length, double momentum, double eps) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    double mean = 0, m2 = 0;
    for (int b = 0; b < batch; ++b) mean += parts[b * channels + c].x;
    mean /= batch;
    for (int b = 0; b < batch; ++b) {
        const double d = parts[b * channels + c].x - mean;
        m2 += parts[b * channels + c].y + length * d * d;
    }
    const double n = (double)batch * length, inverse = 1 / sqrt(m2 / n + eps);
    running_mean[c] = (float)(running_mean[c] + momentum * (mean - running_mean[c]));
    running_var[c] = (float)(running_var[c] + momentum * (m2 / (n - 1) - running_var[c]));
    for (int b = 0; b < batch; ++b) {
        const int k = (int)labels[b] * channels + c;
        const double factor = (1 + (double)gain[k]) * inverse;
        lines[b * channels + c] = make_float2((float)factor, (float)(shift[k] - mean * factor));
    }
}

__global__ void apply(const float* x, const float2* lines, float* y, int total, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = fmaf(x[i], lines[i / length].x, lines[i / length].y);
}

torch::Tensor folded(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean,
                     torch::Tensor running_var, double momentum, double eps) {
    const int batch = x.size(0), channels = x.size(1), length = x.size(2), count = batch * channels, total = x.numel();
    auto y = torch::empty_like(x);
    auto parts = torch::empty({count, 2}, x.options().dtype(torch::kFloat64));
    auto lines = torch::empty({count, 2}, x.options());
    auto* p = reinterpret_cast<double2*>(parts.data_ptr<double>());
    auto* l = reinterpret_cast<float2*>(lines.data_ptr<float>());
    auto stream = at::cuda::getCurrentCUDAStream();
    rows<<<(count + 31) / 32, 32, 0, stream>>>(x.data_ptr<float>(), p, count, length);
    fold<<<(channels + 31) / 32, 32, 0, stream>>>(p, labels.data_ptr<int64_t>(), gain.data_ptr<float>(), shift.data_ptr<float>(),
                                                  running_mean.data_ptr<float>(), running_var.data_ptr<float>(), l, batch, channels, length,
                                                  momentum, eps);
    apply<<<(total + 63) / 64, 64, 0, stream>>>(x.data_ptr<float>(), l, y.data_ptr<float>(), total, length);
    return y;
}
"""
ext = load_inline(
    name="folded_norm",
    cpp_sources="torch::Tensor folded(torch::Tensor x, torch::Tensor labels, torch::Tensor gain, torch::Tensor shift, torch::Tensor running_mean, torch::Tensor running_var, double momentum, double eps);",
    cuda_sources=SRC,
    functions=["folded"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, channels, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.gain = nn.Parameter(torch.randn(classes, channels) * 0.3)
        self.shift = nn.Parameter(torch.randn(classes, channels))

    def forward(self, x, labels, running_mean, running_var):
        y = ext.folded(x.contiguous(), labels, self.gain, self.shift, running_mean, running_var, self.momentum, self.eps)
        return y, running_mean.clone(), running_var.clone()
