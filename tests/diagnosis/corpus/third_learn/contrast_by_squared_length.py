# about = "The features are divided by their squared length; the root is missing."
# section = "mismatch"
# problem = "supervised_contrast"
# causes = ["root-omitted", "wrong-divisor", "wrong-norm-order", "scale-doubled", "eps-outside-root"]
# says = ["root|norm|squar|divi|scal|factor"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void unit_rows(const float4* x, float4* y, int rows, int quads) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float s = 0.f;
    for (int i = 0; i < quads; ++i) {
        const float4 v = x[row * quads + i];
        s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float inverse = 1.f / fmaxf(s, 1e-12f);
    for (int i = 0; i < quads; ++i) {
        float4 v = x[row * quads + i];
        y[row * quads + i] = make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse);
    }
}

// One thread per anchor with an online log-sum-exp.
__global__ void anchors(const float* y, const int64_t* labels, float* loss, int n, int w, float temperature) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = -INFINITY, sum = 0.f, alike = 0.f;
    int count = 0;
    for (int j = 0; j < n; ++j) {
        if (j == i) continue;
        float s = 0.f;
        for (int d = 0; d < w; ++d) s = fmaf(y[i * w + d], y[j * w + d], s);
        s /= temperature;
        const float next = fmaxf(m, s);
        sum = sum * expf(m - next) + expf(s - next);
        m = next;
        if (labels[i] == labels[j]) {
            alike += s;
            count++;
        }
    }
    loss[i] = count ? m + logf(sum) - alike / count : 0.f;
}

torch::Tensor anchors_loss(torch::Tensor x, torch::Tensor labels, double temperature) {
    const int n = x.size(0), w = x.size(1);
    TORCH_CHECK(w % 4 == 0, "width must be a multiple of four");
    auto y = torch::empty_like(x);
    auto loss = torch::empty({n}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    unit_rows<<<(n + 31) / 32, 32, 0, stream>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()),
                                                reinterpret_cast<float4*>(y.data_ptr<float>()), n, w / 4);
    anchors<<<(n + 31) / 32, 32, 0, stream>>>(y.data_ptr<float>(), labels.data_ptr<int64_t>(), loss.data_ptr<float>(), n, w, temperature);
    return loss;
}
"""
ext = load_inline(
    name="anchors_loss",
    cpp_sources="torch::Tensor anchors_loss(torch::Tensor x, torch::Tensor labels, double temperature);",
    cuda_sources=SRC,
    functions=["anchors_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        return ext.anchors_loss(features.contiguous(), labels.contiguous(), self.temperature)
