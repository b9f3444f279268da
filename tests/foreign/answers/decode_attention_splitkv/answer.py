import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

dec_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <math_constants.h>

constexpr int WARPS = 4;
constexpr int CHUNK = 256;    // keys per block

// Pass 1: each block covers CHUNK keys of one (batch, head); every warp keeps a running max, sum and
// weighted value (online softmax) for its keys. Lane l owns dimensions l, l+32, ...
template <int PER>
__global__ void partial_attn(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                             const int* __restrict__ lengths, float* __restrict__ pm, float* __restrict__ pl,
                             float* __restrict__ pacc, int H, int S, int splits, float scale) {
    constexpr int D = PER * 32;
    __shared__ float sm[WARPS], sl[WARPS], sacc[WARPS][D];
    const int bh = blockIdx.y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int len = min(lengths[bh / H], S);
    const int s0 = blockIdx.x * CHUNK;
    const int s1 = min(s0 + CHUNK, len);

    float qr[PER], acc[PER];
    #pragma unroll
    for (int j = 0; j < PER; ++j) {
        qr[j] = q[(size_t)bh * D + j * 32 + lane] * scale;
        acc[j] = 0.f;
    }
    float m = -CUDART_INF_F, l = 0.f;
    for (int s = s0 + warp; s < s1; s += WARPS) {
        const size_t row = ((size_t)bh * S + s) * D;
        float dot = 0.f;
        #pragma unroll
        for (int j = 0; j < PER; ++j) dot += qr[j] * k[row + j * 32 + lane];
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, o);
        const float mn = fmaxf(m, dot);
        const float c = expf(m - mn);        // exp(-inf) = 0 on the first key
        const float p = expf(dot - mn);
        l = l * c + p;
        #pragma unroll
        for (int j = 0; j < PER; ++j) acc[j] = acc[j] * c + p * v[row + j * 32 + lane];
        m = mn;
    }
    if (lane == 0) { sm[warp] = m; sl[warp] = l; }
    #pragma unroll
    for (int j = 0; j < PER; ++j) sacc[warp][j * 32 + lane] = acc[j];
    __syncthreads();

    float mx = sm[0];
    for (int w = 1; w < WARPS; ++w) mx = fmaxf(mx, sm[w]);
    float f[WARPS];
    for (int w = 0; w < WARPS; ++w) f[w] = sl[w] > 0.f ? expf(sm[w] - mx) : 0.f;
    const size_t part = (size_t)bh * splits + blockIdx.x;
    for (int d = threadIdx.x; d < D; d += WARPS * 32) {
        float t = 0.f;
        for (int w = 0; w < WARPS; ++w) t += f[w] * sacc[w][d];
        pacc[part * D + d] = t;
    }
    if (threadIdx.x == 0) {
        float t = 0.f;
        for (int w = 0; w < WARPS; ++w) t += f[w] * sl[w];
        pm[part] = mx;
        pl[part] = t;
    }
}

// Pass 2: join the splits of a (batch, head)
__global__ void join_attn(const float* __restrict__ pm, const float* __restrict__ pl, const float* __restrict__ pacc,
                          float* __restrict__ out, int splits, int D) {
    const size_t bh = blockIdx.x;
    const float* m = pm + bh * splits;
    const float* l = pl + bh * splits;
    float mx = -CUDART_INF_F;
    for (int i = 0; i < splits; ++i) mx = fmaxf(mx, m[i]);
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float num = 0.f, den = 0.f;
        for (int i = 0; i < splits; ++i) {
            if (l[i] > 0.f) {
                const float f = expf(m[i] - mx);
                num += f * pacc[(bh * splits + i) * D + d];
                den += f * l[i];
            }
        }
        out[bh * D + d] = num / den;
    }
}

torch::Tensor decode_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, double scale) {
    TORCH_CHECK(q.dim() == 3 && k.dim() == 4, "q (B,H,D), k and v (B,H,S,D)");
    auto qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
    auto lc = lengths.to(torch::kInt32).contiguous();
    const int B = qc.size(0), H = qc.size(1), D = qc.size(2), S = kc.size(2);
    const int splits = (S + CHUNK - 1) / CHUNK;
    auto pm = torch::empty({B * H, splits}, qc.options());
    auto pl = torch::empty({B * H, splits}, qc.options());
    auto pacc = torch::empty({B * H, splits, D}, qc.options());
    auto out = torch::empty_like(qc);
    auto stream = at::cuda::getCurrentCUDAStream();
    dim3 grid(splits, B * H);
#define RUN(PER) partial_attn<PER><<<grid, WARPS * 32, 0, stream>>>(qc.data_ptr<float>(), kc.data_ptr<float>(), vc.data_ptr<float>(), lc.data_ptr<int>(), pm.data_ptr<float>(), pl.data_ptr<float>(), pacc.data_ptr<float>(), H, S, splits, (float)scale)
    if (D == 32) { RUN(1); }
    else if (D == 64) { RUN(2); }
    else if (D == 128) { RUN(4); }
    else { TORCH_CHECK(false, "head_dim must be 32, 64 or 128"); }
#undef RUN
    join_attn<<<B * H, 64, 0, stream>>>(pm.data_ptr<float>(), pl.data_ptr<float>(), pacc.data_ptr<float>(), out.data_ptr<float>(), splits, D);
    return out;
}
"""

dec_cpp = """
torch::Tensor decode_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor lengths, double scale);
"""

dec = load_inline(name="decode_attn", cpp_sources=dec_cpp, cuda_sources=dec_src, functions=["decode_attention"],
                  extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, head_dim: int):
        super().__init__()
        self.scale = head_dim ** -0.5

    def forward(self, q, k, v, lengths):
        return dec.decode_attention(q, k, v, lengths, self.scale)
