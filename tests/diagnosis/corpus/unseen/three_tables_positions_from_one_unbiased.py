# about = "Positions count from one, and the variance of the norm is divided by n - 1."
# section = "mismatch"
# problem = "embedding_three_tables"
# faults = [{causes = ["index-off-by-one", "wrong-index-base"], says = ["off by one|position|next|one row|index|shift|row"]}, {causes = ["unbiased-variance", "wrong-divisor"], says = ["unbiased|n - 1|n-1|divis|divid|Bessel|count"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="summed_tables",
    cpp_sources=(
        "torch::Tensor look_up(torch::Tensor ids, torch::Tensor segment, torch::Tensor a, torch::Tensor b, torch::Tensor c);"
        "torch::Tensor normalise(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);"
    ),
    cuda_sources=r"""
__global__ void look_up_kernel(const int64_t* ids, const int64_t* segment, const float* a, const float* b,
                               const float* c, float* y, int total, int length, int width) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < total; e += gridDim.x * blockDim.x) {
        int column = e % width, step = e / width, place = step % length + 1;
        y[e] = a[ids[step] * width + column] + b[segment[step] * width + column] + c[place * width + column];
    }
}

__global__ void normalise_kernel(const float* x, const float* weight, const float* bias, float* y, int rows, int n,
                                 float eps) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * n;
    y += (long)row * n;
    float sum = 0.f, square = 0.f;
    for (int i = lane; i < n; i += 32) sum += x[i];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    float mean = sum / n;
    for (int i = lane; i < n; i += 32) square += (x[i] - mean) * (x[i] - mean);
    for (int o = 16; o > 0; o /= 2) square += __shfl_xor_sync(0xffffffff, square, o);
    float inverse = 1.f / sqrtf(square / (n - 1) + eps);
    for (int i = lane; i < n; i += 32) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

torch::Tensor look_up(torch::Tensor ids, torch::Tensor segment, torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    auto y = torch::empty({ids.size(0), ids.size(1), a.size(1)}, a.options());
    look_up_kernel<<<5, 192>>>(ids.data_ptr<int64_t>(), segment.data_ptr<int64_t>(), a.data_ptr<float>(),
        b.data_ptr<float>(), c.data_ptr<float>(), y.data_ptr<float>(), y.numel(), ids.size(1), a.size(1));
    return y;
}

torch::Tensor normalise(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    int n = x.size(-1), rows = x.numel() / n;
    auto y = torch::empty_like(x);
    normalise_kernel<<<(rows + 1) / 2, 64>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        y.data_ptr<float>(), rows, n, (float)eps);
    return y;
}
""",
    functions=["look_up", "normalise"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, segments, length, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.segment = nn.Embedding(segments, width)
        self.position = nn.Embedding(length + 2, width)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, ids, segment):
        x = ext.look_up(ids.contiguous(), segment.contiguous(), self.token.weight, self.segment.weight,
                        self.position.weight)
        return ext.normalise(x, self.norm.weight, self.norm.bias, self.norm.eps)
