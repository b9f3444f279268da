# about = "Weighs with the other class instead of the target's, and divides by one class less."
# section = "mismatch"
# problem = "multi_margin"
# faults = [{causes = ["weight-wrong-place", "bias-wrong-index", "wrong-channel", "index-ignored", "affine-per-group", "wrong-axis"], says = ["weight|index|class|target"]}, {causes = ["wrong-divisor", "unbiased-variance"], says = ["divis|divid|count|factor|C - 1|n - 1|classes"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="margin_lanes",
    cpp_sources="torch::Tensor loss(torch::Tensor scores, torch::Tensor target, torch::Tensor weight, double margin);",
    cuda_sources=r"""
// Sixteen lanes for each row.
__global__ void loss_kernel(const float* scores, const int64_t* target, const float* weight, float* y, int rows,
                            int classes, float margin) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 16, lane = threadIdx.x % 16;
    float sum = 0.f;
    if (row < rows) {
        int label = target[row];
        float own = scores[(long)row * classes + label];
        for (int c = lane; c < classes; c += 16) {
            if (c == label) continue;
            float short_of = fmaxf(0.f, margin - own + scores[(long)row * classes + c]);
            sum += short_of * short_of * weight[c];
        }
    }
    sum += __shfl_xor_sync(0xffffffff, sum, 8);
    sum += __shfl_xor_sync(0xffffffff, sum, 4);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    if (row < rows && lane == 0) y[row] = sum / (classes - 1);
}

torch::Tensor loss(torch::Tensor scores, torch::Tensor target, torch::Tensor weight, double margin) {
    int rows = scores.size(0);
    auto y = torch::empty({rows}, scores.options());
    loss_kernel<<<(rows + 7) / 8, 128>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(),
        weight.data_ptr<float>(), y.data_ptr<float>(), rows, scores.size(1), margin);
    return y;
}
""",
    functions=["loss"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, margin):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.2)
        self.margin = margin

    def forward(self, scores, target):
        return ext.loss(scores.contiguous(), target.contiguous(), self.weight, self.margin)
