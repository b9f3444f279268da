# about = "The condition is added to the first half alone, and the skipped input is added after the scaling."
# section = "mismatch"
# problem = "wavenet_unit"
# faults = [{causes = ["bias-missing", "lost-channels", "operator-missing", "wrong-channel"], says = ["condition|bias|half|gate|added|left out|missing|channel|second"]}, {causes = ["residual-wrong-place", "weight-wrong-place", "activation-order", "scale-missing"], says = ["skip|residual|scal|order|before|after|factor|place"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="wavenet_rows",
    cpp_sources="torch::Tensor unit(torch::Tensor x, torch::Tensor skip, torch::Tensor condition);",
    cuda_sources=r"""
// A block for each channel of each sample.
__global__ void unit_kernel(const float* x, const float* skip, const float* condition, float* y, int channels,
                            int length) {
    int c = blockIdx.x, b = blockIdx.y;
    const float* first = x + ((long)b * 2 * channels + c) * length;
    const float* second = first + (long)channels * length;
    float shift = condition[b * 2 * channels + c];
    long row = ((long)b * channels + c) * length;
    for (int t = threadIdx.x; t < length; t += blockDim.x) {
        float a = 2.f / (1.f + __expf(-2.f * (first[t] + shift))) - 1.f;
        float g = 1.f / (1.f + __expf(-second[t]));
        y[row + t] = a * g * 0.70710678118f + skip[row + t];
    }
}

torch::Tensor unit(torch::Tensor x, torch::Tensor skip, torch::Tensor condition) {
    auto y = torch::empty_like(skip);
    dim3 grid(skip.size(1), skip.size(0));
    unit_kernel<<<grid, 32>>>(x.data_ptr<float>(), skip.data_ptr<float>(), condition.data_ptr<float>(),
        y.data_ptr<float>(), skip.size(1), skip.size(2));
    return y;
}
""",
    functions=["unit"],
)


class ModelNew(nn.Module):
    def forward(self, x, skip, condition):
        return ext.unit(x.contiguous(), skip.contiguous(), condition.contiguous())
