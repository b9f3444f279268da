# about = "The maximum is not subtracted, and the exponentials overflow."
# section = "mismatch"
# problem = "logsumexp_two_dims"
# causes = ["lse-without-max", "overflow-to-nan", "non-finite-output", "nan-output"]
# says = ["max|overflow|inf|finite"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="two_dims",
    cpp_sources="torch::Tensor reduce(torch::Tensor x);",
    cuda_sources=r"""
// A warp for each pair of sample and height; lanes go over channels, each over the whole width.
__global__ void reduce_kernel(const float* x, float* y, int total, int channels, int height, int width) {
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= total) return;
    int h = r % height, b = r / height;
    float sum = 0.f;
    for (int c = threadIdx.x; c < channels; c += 32) {
        const float* row = x + (((long)b * channels + c) * height + h) * width;
        for (int w = 0; w < width; ++w) sum += expf(row[w]);
    }
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) y[r] = logf(sum);
}

torch::Tensor reduce(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(2)}, x.options());
    int total = y.numel();
    dim3 block(32, 4);
    reduce_kernel<<<(total + 3) / 4, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, x.size(1), x.size(2),
        x.size(3));
    return y;
}
""",
    functions=["reduce"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        x = x.contiguous()
        return ext.reduce(x)
