# about = "The mask is read by feature, not by step, where values are summed."
# section = "mismatch"
# problem = "masked_mean"
# causes = ["wrong-axis", "layout-misread", "keepdim-broadcast", "index-ignored"]
# says = ["mask|keep|axis|dim|ind|layout|broadcast"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void mean_kernel(const float* x, const bool* keep, float* y, int batch, int length, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * width) return;
    const int b = i / width, d = i % width;
    const bool* mask = keep + b * length;
    int count = 0;
    for (int t = 0; t < length; ++t) count += mask[t];
    float sum = 0.f;
    for (int t = 0; t < length; ++t) sum += mask[d] ? x[(b * length + t) * width + d] : 0.f;
    y[i] = sum / max(count, 1);
}

torch::Tensor mean(torch::Tensor x, torch::Tensor keep) {
    const int batch = x.size(0), width = x.size(2);
    auto y = torch::empty({batch, width}, x.options());
    mean_kernel<<<(batch * width + 63) / 64, 64>>>(x.data_ptr<float>(), keep.data_ptr<bool>(), y.data_ptr<float>(),
                                                 batch, x.size(1), width);
    return y;
}
"""

kernels = load_inline(
    name="mean_of_kept",
    cpp_sources="torch::Tensor mean(torch::Tensor x, torch::Tensor keep);",
    cuda_sources=SRC,
    functions=["mean"],
)


class ModelNew(nn.Module):
    def forward(self, x, keep):
        return kernels.mean(x.contiguous(), keep.contiguous())
