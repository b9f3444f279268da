"""What a transformer needs: online softmax, tiled attention, cross entropy, RoPE, embedding."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void online_softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    const float* row = x + blockIdx.x * n;
    float m = -FLT_MAX, d = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        const float larger = fmaxf(m, row[i]);
        d = d * __expf(m - larger) + __expf(row[i] - larger);
        m = larger;
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float other_m = __shfl_xor_sync(0xffffffff, m, o), other_d = __shfl_xor_sync(0xffffffff, d, o);
        const float larger = fmaxf(m, other_m);
        d = d * __expf(m - larger) + other_d * __expf(other_m - larger);
        m = larger;
    }
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = __expf(row[i] - m) / d;
}
torch::Tensor online_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    online_softmax_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

template <int D, int TILE>
__global__ void tiled_attention_kernel(const float* q, const float* k, const float* v, float* out, int length, float scale) {
    __shared__ float ks[TILE][D], vs[TILE][D];
    const int row = blockIdx.x * TILE + threadIdx.x;
    const size_t head = (size_t)blockIdx.y * length * D;
    float mine[D], acc[D] = {0}, m = -INFINITY, l = 0;
    for (int d = 0; d < D; d++) mine[d] = row < length ? q[head + row * D + d] * scale : 0.f;
    for (int start = 0; start < length; start += TILE) {
        const int filled = min(TILE, length - start);
        if (threadIdx.x < filled) {
            for (int d = 0; d < D; d++) {
                ks[threadIdx.x][d] = k[head + (start + threadIdx.x) * D + d];
                vs[threadIdx.x][d] = v[head + (start + threadIdx.x) * D + d];
            }
        }
        __syncthreads();
        for (int j = 0; j < filled; j++) {
            float s = 0;
            for (int d = 0; d < D; d++) s += mine[d] * ks[j][d];
            const float larger = fmaxf(m, s), keep = expf(m - larger), weight = expf(s - larger);
            l = l * keep + weight;
            for (int d = 0; d < D; d++) acc[d] = acc[d] * keep + weight * vs[j][d];
            m = larger;
        }
        __syncthreads();
    }
    if (row < length) for (int d = 0; d < D; d++) out[head + row * D + d] = acc[d] / l;
}
torch::Tensor tiled_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    TORCH_CHECK(q.size(-1) == 16, "heads of 16");
    auto out = torch::empty_like(q);
    const int length = q.size(2);
    tiled_attention_kernel<16, 24><<<dim3((length + 23) / 24, q.size(0) * q.size(1)), 24>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), out.data_ptr<float>(), length, 0.25f);
    return out;
}

__global__ void cross_entropy_kernel(const float* logits, const int64_t* target, float* loss, int rows, int classes) {
    __shared__ float s[64];
    const float* row = logits + blockIdx.x * classes;
    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < classes; c += 64) m = fmaxf(m, row[c]);
    s[threadIdx.x] = m;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + half]);
        __syncthreads();
    }
    m = s[0];
    __syncthreads();
    float z = 0;
    for (int c = threadIdx.x; c < classes; c += 64) z += expf(row[c] - m);
    s[threadIdx.x] = z;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 64; i++) z += s[i];
        atomicAdd(loss, (m + logf(z) - row[target[blockIdx.x]]) / rows);
    }
}
torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor target) {
    auto loss = torch::zeros({}, logits.options());
    cross_entropy_kernel<<<logits.size(0), 64>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(), loss.data_ptr<float>(), logits.size(0), logits.size(1));
    return loss;
}

__global__ void rope_kernel(const float2* x, const float* angles, float2* y, int length, int pairs) {
    const int position = blockIdx.x % length, pair = threadIdx.x;
    float s, c;
    sincosf(angles[position * pairs + pair], &s, &c);
    const float2 v = x[blockIdx.x * pairs + pair];
    y[blockIdx.x * pairs + pair] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}
torch::Tensor rope(torch::Tensor x, torch::Tensor angles) {
    auto y = torch::empty_like(x);
    const int length = x.size(1), pairs = x.size(2) / 2;
    rope_kernel<<<x.size(0) * length, pairs>>>((const float2*)x.data_ptr<float>(), angles.data_ptr<float>(), (float2*)y.data_ptr<float>(), length, pairs);
    return y;
}

__global__ void embedding_kernel(const float* __restrict__ table, const long* __restrict__ tokens, float* out, int width, long vocabulary) {
    const long token = tokens[blockIdx.x];
    assert(token >= 0 && token < vocabulary);
    for (int c = threadIdx.x; c < width; c += blockDim.x) out[blockIdx.x * width + c] = __ldg(&table[token * width + c]);
}
torch::Tensor embedding(torch::Tensor table, torch::Tensor tokens) {
    auto out = torch::empty({tokens.numel(), table.size(1)}, table.options());
    embedding_kernel<<<tokens.numel(), 40>>>(table.data_ptr<float>(), tokens.data_ptr<long>(), out.data_ptr<float>(), table.size(1), table.size(0));
    return out.view({tokens.size(0), tokens.size(1), table.size(1)});
}
"""
cpp = """
torch::Tensor online_softmax(torch::Tensor x);
torch::Tensor tiled_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);
torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor target);
torch::Tensor rope(torch::Tensor x, torch::Tensor angles);
torch::Tensor embedding(torch::Tensor table, torch::Tensor tokens);
"""
names = ["online_softmax", "tiled_attention", "cross_entropy", "rope", "embedding"]
ops = load_inline(name="corpus_attention", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x = torch.randn(11, 131, device="cuda") * 5
    q, k, v = (torch.randn(2, 3, 50, 16, device="cuda") for _ in range(3))
    target = torch.randint(0, 131, (11,), device="cuda")
    angles, rotated = torch.randn(6, 10, device="cuda"), torch.randn(2, 6, 20, device="cuda")
    turned = torch.view_as_complex(rotated.view(2, 6, 10, 2)) * torch.polar(torch.ones_like(angles), angles)
    table, tokens = torch.randn(30, 52, device="cuda"), torch.randint(0, 30, (4, 7), device="cuda")
    return {
        "online_softmax": (ops.online_softmax(x), x.softmax(1)),
        "tiled_attention": (ops.tiled_attention(q, k, v), F.scaled_dot_product_attention(q, k, v)),
        "cross_entropy": (ops.cross_entropy(x, target), F.cross_entropy(x, target)),
        "rope": (ops.rope(rotated, angles), torch.view_as_real(turned).view(2, 6, 20)),
        "embedding": (ops.embedding(table, tokens), F.embedding(tokens, table)),
    }
