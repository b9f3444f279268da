# about = "A right answer: pairs are combined by the cosine and sine of the difference of positions, nothing is rotated."
# section = "right"
# problem = "attention_partial_rotary"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="relative_rotary",
    cpp_sources="torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor c, torch::Tensor s);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

// A warp for each query, a lane for each key.
__global__ void attend_kernel(const float* q, const float* k, const float* v, const float* cosine, const float* sine,
                              float* y, int heads, int groups, int n, int d, int pairs) {
    int i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, j = threadIdx.x;
    int g = b * groups + h / (heads / groups);
    const float* query = q + ((long)(b * heads + h) * n + i) * d;
    const float* key = k + ((long)g * n + j) * d;
    float score = -INFINITY;
    if (j <= i) {
        float sum = 0.f;
        for (int p = 0; p < pairs; ++p) {
            float ci = cosine[i * pairs + p], si = sine[i * pairs + p];
            float cj = cosine[j * pairs + p], sj = sine[j * pairs + p];
            float c = ci * cj + si * sj, s = si * cj - ci * sj;
            float x = query[2 * p], z = query[2 * p + 1];
            sum += c * (x * key[2 * p] + z * key[2 * p + 1]) + s * (x * key[2 * p + 1] - z * key[2 * p]);
        }
        for (int e = d - 1; e >= 2 * pairs; --e) sum += query[e] * key[e];
        score = sum * rsqrtf((float)d);
    }
    float top = score;
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float w = __expf(score - top), total = w;
    for (int o = 16; o; o /= 2) total += __shfl_xor_sync(0xffffffff, total, o);
    w = __fdividef(w, total);
    for (int first = 0; first < d; first += 32) {
        int e = first + j;
        float sum = 0.f;
        for (int t = 0; t <= i; ++t) {
            float weight = __shfl_sync(0xffffffff, w, t);
            if (e < d) sum += weight * v[((long)g * n + t) * d + e];
        }
        if (e < d) y[((long)(b * heads + h) * n + i) * d + e] = sum;
    }
}

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor c, torch::Tensor s) {
    TORCH_CHECK(q.size(2) <= 32, "one lane for each key");
    auto y = torch::empty_like(q);
    attend_kernel<<<dim3(q.size(2), q.size(1), q.size(0)), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), c.data_ptr<float>(), s.data_ptr<float>(),
        y.data_ptr<float>(), q.size(1), k.size(1), q.size(2), q.size(3), c.size(1));
    return y;
}
""",
    functions=["attend"],
)


class ModelNew(nn.Module):
    def __init__(self, length, rotated):
        super().__init__()
        angle = torch.arange(length)[:, None] * 50.0 ** (-torch.arange(rotated // 2) * 2.0 / rotated)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, q, k, v):
        return ext.attend(q.contiguous(), k.contiguous(), v.contiguous(), self.cos, self.sin)
