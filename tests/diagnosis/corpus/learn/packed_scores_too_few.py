# about = "The array of scores in shared memory has room for 16 keys, and there are 18."
# section = "run"
# problem = "attention_packed"
# causes = ["shared-out-of-bounds-write"]
# says = ["shared"]
# stage = ["run", "verify"]
# line = "scores"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

code = r"""
#define MAX_KEYS 16

__global__ void attention_kernel(const float* x, float* y, int length, int heads, int size) {
    __shared__ float scores[MAX_KEYS];
    const int width = heads * size;
    const int row = blockIdx.x, head = blockIdx.y, sample = blockIdx.z;
    const float* base = x + sample * length * 3 * width + head * size;
    const float* q = base + row * 3 * width;
    for (int j = threadIdx.x; j < length; j += blockDim.x) {
        const float* k = base + j * 3 * width + width;
        float s = 0.f;
        for (int d = 0; d < size; ++d) s += q[d] * k[d];
        scores[j] = s / sqrtf((float)size);
    }
    __syncthreads();
    if (threadIdx.x < size) {
        float top = -INFINITY, sum = 0.f, acc = 0.f;
        for (int j = 0; j < length; ++j) top = fmaxf(top, scores[j]);
        for (int j = 0; j < length; ++j) {
            const float e = expf(scores[j] - top);
            sum += e;
            acc += e * base[j * 3 * width + 2 * width + threadIdx.x];
        }
        y[(sample * length + row) * width + head * size + threadIdx.x] = acc / sum;
    }
}

torch::Tensor self_attention(torch::Tensor x, int64_t heads) {
    const int width = x.size(2) / 3;
    auto y = torch::empty({x.size(0), x.size(1), width}, x.options());
    const dim3 grid(x.size(1), heads, x.size(0));
    attention_kernel<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), heads, width / heads);
    return y;
}
"""

ops = load_inline(name="self_attention", cpp_sources="torch::Tensor self_attention(torch::Tensor x, int64_t heads);",
                  cuda_sources=code, functions=["self_attention"])


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        return ops.self_attention(qkv.contiguous(), self.heads)
