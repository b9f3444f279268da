# about = "The bias is left out, and the remainder of the inner sum after steps of four is lost."
# section = "mismatch"
# problem = "bilinear_form"
# faults = [{causes = ["bias-missing", "affine-ignored", "operator-missing"], says = ["bias"]}, {causes = ["lost-last-block", "last-element-left-out", "lost-lanes", "lost-channels", "hard-coded-size"], says = ["last|remain|tail|partial|left out|lost|multiple|four|end|summed"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="bilinear_fours",
    cpp_sources="torch::Tensor form(torch::Tensor x, torch::Tensor y, torch::Tensor weight);",
    cuda_sources=r"""
// A warp for each output of each row; lanes share the left side.
__global__ void form_kernel(const float* x, const float* y, const float* weight, float* z, int total, int left,
                            int right, int outputs) {
    int e = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (e >= total) return;
    int o = e % outputs, b = e / outputs;
    const float* second = y + (long)b * right;
    float sum = 0.f;
    for (int i = lane; i < left; i += 32) {
        const float* w = weight + ((long)o * left + i) * right;
        float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
        for (int j = 0; j < right / 4; ++j) {
            s0 = fmaf(w[4 * j], second[4 * j], s0);
            s1 = fmaf(w[4 * j + 1], second[4 * j + 1], s1);
            s2 = fmaf(w[4 * j + 2], second[4 * j + 2], s2);
            s3 = fmaf(w[4 * j + 3], second[4 * j + 3], s3);
        }
        sum += x[(long)b * left + i] * ((s0 + s1) + (s2 + s3));
    }
    for (int o2 = 16; o2 > 0; o2 /= 2) sum += __shfl_down_sync(0xffffffff, sum, o2);
    if (lane == 0) z[e] = fmaxf(sum, 0.1f * sum);
}

torch::Tensor form(torch::Tensor x, torch::Tensor y, torch::Tensor weight) {
    auto z = torch::empty({x.size(0), weight.size(0)}, x.options());
    int total = z.numel();
    form_kernel<<<(total + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), weight.data_ptr<float>(),
        z.data_ptr<float>(), total, x.size(1), y.size(1), weight.size(0));
    return z;
}
""",
    functions=["form"],
)


class ModelNew(nn.Module):
    def __init__(self, left, right, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, left, right) * 0.2)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, y):
        return ext.form(x.contiguous(), y.contiguous(), self.weight)
