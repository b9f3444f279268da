# about = "Smoothing is spread over the other classes alone, and the sum is divided by the number of steps that count, not by their weights."
# section = "mismatch"
# problem = "cross_entropy_steps"
# faults = [{causes = ["wrong-coefficient", "wrong-divisor", "smoothing-missing", "base-ignored"], says = ["smooth|spread|C - 1|classes"]}, {causes = ["wrong-divisor", "weight-ignored", "weight-wrong-place"], says = ["divis|divid|count|weight|mean|number"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="smoothed_steps",
    cpp_sources="""
torch::Tensor losses(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t padding, double smoothing);
torch::Tensor average(torch::Tensor losses, torch::Tensor target, int64_t padding);
""",
    cuda_sources=r"""
__global__ void losses_kernel(const float* logits, const int64_t* target, const float* weight, float* y, int steps,
                              int classes, int length, int padding, float smoothing) {
    int step = blockIdx.x * blockDim.x + threadIdx.x;
    if (step >= steps) return;
    const float* x = logits + (long)(step / length) * classes * length + step % length;
    int label = target[step];
    if (label == padding) {
        y[step] = 0.f;
        return;
    }
    float top = x[0], total = 1.f;
    for (int c = 1; c < classes; ++c) {
        float value = x[c * length];
        if (value > top) {
            total = total * expf(top - value) + 1.f;
            top = value;
        } else {
            total += expf(value - top);
        }
    }
    float logarithm = logf(total) + top, loss = 0.f;
    for (int c = 0; c < classes; ++c) {
        float share = c == label ? 1.f - smoothing : smoothing / (classes - 1);
        loss += share * weight[c] * (logarithm - x[c * length]);
    }
    y[step] = loss;
}

__global__ void average_kernel(const float* losses, const int64_t* target, float* y, int steps, int padding) {
    float sum = 0.f, count = 0.f;
    for (int i = threadIdx.x; i < steps; i += 32)
        if (target[i] != padding) {
            sum += losses[i];
            count += 1.f;
        }
    for (int o = 16; o > 0; o /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, o);
        count += __shfl_xor_sync(0xffffffff, count, o);
    }
    if (threadIdx.x == 0) y[0] = sum / count;
}

torch::Tensor losses(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t padding, double smoothing) {
    auto y = torch::empty({target.numel()}, logits.options());
    int steps = target.numel();
    losses_kernel<<<(steps + 63) / 64, 64>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(),
        weight.data_ptr<float>(), y.data_ptr<float>(), steps, logits.size(1), logits.size(2), padding, smoothing);
    return y;
}

torch::Tensor average(torch::Tensor losses, torch::Tensor target, int64_t padding) {
    auto y = torch::empty({}, losses.options());
    average_kernel<<<1, 32>>>(losses.data_ptr<float>(), target.data_ptr<int64_t>(), y.data_ptr<float>(),
        losses.numel(), padding);
    return y;
}
""",
    functions=["losses", "average"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, padding, smoothing):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.25)
        self.padding, self.smoothing = padding, smoothing

    def forward(self, logits, target):
        target = target.contiguous()
        each = ext.losses(logits.contiguous(), target, self.weight, self.padding, self.smoothing)
        return ext.average(each, target, self.padding)
