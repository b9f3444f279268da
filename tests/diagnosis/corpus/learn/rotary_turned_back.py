# about = "The sign of the sine is wrong in both halves: the rotation runs backwards."
# section = "mismatch"
# problem = "rotary"
# causes = ["sign-error"]
# says = ["sign|minus|negat|sin"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
__global__ void rotate_half_kernel(const float* x, const float* cosine, const float* sine, float* y, int n, int size, int length) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        int c = i % size;
        int position = i / size % length;
        int half = size / 2;
        int a = position * half + c % half;
        float partner = c < half ? x[i + half] : -x[i - half];
        y[i] = x[i] * cosine[a] + partner * sine[a];
    }
}

torch::Tensor rotate(torch::Tensor x, torch::Tensor cosine, torch::Tensor sine) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    rotate_half_kernel<<<8, 128>>>(x.data_ptr<float>(), cosine.data_ptr<float>(), sine.data_ptr<float>(),
                                   y.data_ptr<float>(), n, x.size(3), x.size(2));
    return y;
}
"""

rotation = load_inline(
    name="rotate_half",
    cpp_sources="torch::Tensor rotate(torch::Tensor x, torch::Tensor cosine, torch::Tensor sine);",
    cuda_sources=cuda_src,
    functions=["rotate"],
)


class ModelNew(nn.Module):
    def __init__(self, length, head_size):
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(head_size // 2) * 2.0 / head_size)
        angle = torch.arange(length)[:, None] * frequency
        self.register_buffer("cos", torch.cos(angle))
        self.register_buffer("sin", torch.sin(angle))

    def forward(self, x):
        return rotation.rotate(x.contiguous(), self.cos, self.sin)
