import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

add_ln_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

struct Stat {
    float mean, m2, cnt;
};

__device__ __forceinline__ void push(Stat& s, float v) {
    s.cnt += 1.f;
    float d = v - s.mean;
    s.mean += d / s.cnt;
    s.m2 += d * (v - s.mean);
}

__device__ __forceinline__ Stat join(Stat a, Stat b) {
    float n = a.cnt + b.cnt;
    if (n <= 0.f) return a;
    float d = b.mean - a.mean;
    Stat r;
    r.cnt = n;
    r.mean = a.mean + d * (b.cnt / n);
    r.m2 = a.m2 + b.m2 + d * d * (a.cnt * b.cnt / n);
    return r;
}

__device__ __forceinline__ Stat shfl_join(Stat s) {
    for (int o = 16; o > 0; o >>= 1) {
        Stat t = {__shfl_xor_sync(0xffffffffu, s.mean, o), __shfl_xor_sync(0xffffffffu, s.m2, o),
                  __shfl_xor_sync(0xffffffffu, s.cnt, o)};
        s = join(s, t);
    }
    return s;
}

template <int VEC>
__global__ void __launch_bounds__(256) add_ln(const float* __restrict__ x, const float* __restrict__ r,
                                              const float* __restrict__ g, const float* __restrict__ b,
                                              float* __restrict__ out, float* sum_out, int dim, float eps) {
    __shared__ Stat sh[8];
    const size_t base = (size_t)blockIdx.x * dim;
    Stat s = {0.f, 0.f, 0.f};
    const int nv = dim / VEC;
    for (int i = threadIdx.x; i < nv; i += 256) {
        if (VEC == 4) {
            float4 u = reinterpret_cast<const float4*>(x + base)[i];
            float4 v = reinterpret_cast<const float4*>(r + base)[i];
            float4 h = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
            reinterpret_cast<float4*>(sum_out + base)[i] = h;
            push(s, h.x); push(s, h.y); push(s, h.z); push(s, h.w);
        } else {
            float h = x[base + i] + r[base + i];
            sum_out[base + i] = h;
            push(s, h);
        }
    }
    s = shfl_join(s);
    if ((threadIdx.x & 31) == 0) sh[threadIdx.x >> 5] = s;
    __syncthreads();
    Stat t = {0.f, 0.f, 0.f};
    if ((threadIdx.x & 31) < 8) t = sh[threadIdx.x & 31];
    t = shfl_join(t);
    const float mean = t.mean;
    const float inv = rsqrtf(t.m2 / dim + eps);
    // the same thread reads back exactly what it stored above
    for (int i = threadIdx.x; i < nv; i += 256) {
        #pragma unroll
        for (int k = 0; k < VEC; ++k) {
            int c = i * VEC + k;
            out[base + c] = (sum_out[base + c] - mean) * inv * g[c] + b[c];
        }
    }
}

std::vector<torch::Tensor> add_layer_norm(torch::Tensor x, torch::Tensor r, torch::Tensor g, torch::Tensor b, double eps) {
    TORCH_CHECK(x.sizes() == r.sizes(), "x and residual differ in shape");
    auto xc = x.contiguous(), rc = r.contiguous(), gc = g.contiguous(), bc = b.contiguous();
    auto out = torch::empty_like(xc), sum = torch::empty_like(xc);
    const int dim = xc.size(-1);
    const int rows = xc.numel() / dim;
    auto st = at::cuda::getCurrentCUDAStream();
    const bool vec = dim % 4 == 0 && ((uintptr_t)xc.data_ptr<float>() & 15) == 0 && ((uintptr_t)rc.data_ptr<float>() & 15) == 0;
    if (vec)
        add_ln<4><<<rows, 256, 0, st>>>(xc.data_ptr<float>(), rc.data_ptr<float>(), gc.data_ptr<float>(), bc.data_ptr<float>(),
                                        out.data_ptr<float>(), sum.data_ptr<float>(), dim, (float)eps);
    else
        add_ln<1><<<rows, 256, 0, st>>>(xc.data_ptr<float>(), rc.data_ptr<float>(), gc.data_ptr<float>(), bc.data_ptr<float>(),
                                        out.data_ptr<float>(), sum.data_ptr<float>(), dim, (float)eps);
    return {out, sum};
}
"""

add_ln_cpp = """
std::vector<torch::Tensor> add_layer_norm(torch::Tensor x, torch::Tensor r, torch::Tensor g, torch::Tensor b, double eps);
"""

add_ln = load_inline(name="add_layer_norm_ext", cpp_sources=add_ln_cpp, cuda_sources=add_ln_src,
                     functions=["add_layer_norm"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)

    def forward(self, x, residual):
        out, h = add_ln.add_layer_norm(x, residual, self.norm.weight, self.norm.bias, self.norm.eps)
        return out, h
