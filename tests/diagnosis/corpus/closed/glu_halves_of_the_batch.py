# about = "The gate is half of the whole tensor away, as if the batch were split and not the channels."
# section = "mismatch"
# problem = "glu_channels"
# causes = ["layout-misread", "wrong-axis", "wrong-channel"]
# says = ["half|axis|dim|batch|layout|stride|ind|channel|split|gate"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

glu_code = """
__global__ void glu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        float gate = x[i + n];
        y[i] = value * (1.0f / (1.0f + expf(-gate)));
    }
}

torch::Tensor glu_cuda(torch::Tensor x) {
    int half = x.size(1) / 2;
    auto y = torch::empty({x.size(0), half, x.size(2)}, x.options());
    int n = y.numel();
    int threads = 128;
    glu_kernel<<<(n + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

glu_cpp = "torch::Tensor glu_cuda(torch::Tensor x);"

glu = load_inline(
    name="glu",
    cpp_sources=glu_cpp,
    cuda_sources=glu_code,
    functions=["glu_cuda"],
    verbose=False,
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = glu

    def forward(self, x):
        return self.op.glu_cuda(x.contiguous())
