"""Layer norm by Welford, RMS norm on half2, batch norm with constants, instance norm in bfloat16."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

struct Welford { float mean, m2, count; };
__device__ Welford merge(Welford a, Welford b) {
    const float count = a.count + b.count;
    if (count == 0.f) return a;
    const float delta = b.mean - a.mean;
    return {a.mean + delta * b.count / count, a.m2 + b.m2 + delta * delta * a.count * b.count / count, count};
}
__global__ void welford_layer_norm_kernel(const float* x, const float* w, const float* b, float* y, int d, float eps) {
    __shared__ Welford parts[4];
    Welford mine = {0, 0, 0};
    const float* row = x + (size_t)blockIdx.x * d;
    for (int i = threadIdx.x; i < d; i += blockDim.x) mine = merge(mine, Welford{row[i], 0.f, 1.f});
    for (int o = 16; o > 0; o >>= 1) {
        Welford other;
        other.mean = __shfl_xor_sync(0xffffffff, mine.mean, o);
        other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, o);
        other.count = __shfl_xor_sync(0xffffffff, mine.count, o);
        mine = merge(mine, other);
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = mine;
    __syncthreads();
    Welford all = parts[0];
    for (int k = 1; k < 4; k++) all = merge(all, parts[k]);
    const float inv = rsqrtf(all.m2 / d + eps);
    for (int i = threadIdx.x; i < d; i += blockDim.x) y[(size_t)blockIdx.x * d + i] = (row[i] - all.mean) * inv * w[i] + b[i];
}
torch::Tensor welford_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    welford_layer_norm_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1), 1e-5f);
    return y;
}

__global__ void half2_rms_norm_kernel(const __half2* x, const __half2* w, __half2* y, int pairs) {
    float q = 0;
    for (int i = threadIdx.x; i < pairs; i += 32) {
        const float2 v = __half22float2(x[blockIdx.x * pairs + i]);
        q += v.x * v.x + v.y * v.y;
    }
    #pragma unroll
    for (int o = 1; o < 32; o <<= 1) q += __shfl_xor_sync(0xffffffff, q, o);
    const __half2 inv = __float2half2_rn(rsqrtf(q / (2 * pairs) + 1e-6f));
    for (int i = threadIdx.x; i < pairs; i += 32)
        y[blockIdx.x * pairs + i] = __hmul2(__hmul2(x[blockIdx.x * pairs + i], inv), w[i]);
}
torch::Tensor half2_rms_norm(torch::Tensor x, torch::Tensor w) {
    auto y = torch::empty_like(x);
    half2_rms_norm_kernel<<<x.size(0), 32>>>(
        reinterpret_cast<const __half2*>(x.data_ptr<at::Half>()), reinterpret_cast<const __half2*>(w.data_ptr<at::Half>()),
        reinterpret_cast<__half2*>(y.data_ptr<at::Half>()), x.size(1) / 2);
    return y;
}

__constant__ float bn_scale[64], bn_shift[64];
__global__ void constant_batch_norm_kernel(const float* x, float* y, int channels, int spatial) {
    const int c = blockIdx.y, n = blockIdx.z;
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s < spatial) {
        const int i = (n * channels + c) * spatial + s;
        y[i] = fmaf(x[i], bn_scale[c], bn_shift[c]);
    }
}
torch::Tensor constant_batch_norm(torch::Tensor x, torch::Tensor mean, torch::Tensor var) {
    auto scale = torch::rsqrt(var + 1e-5).contiguous(), shift = (-mean * scale).contiguous();
    const int channels = x.size(1), spatial = x.numel() / (x.size(0) * channels);
    TORCH_CHECK(channels <= 64, "at most 64 channels");
    cudaMemcpyToSymbol(bn_scale, scale.data_ptr<float>(), channels * sizeof(float), 0, cudaMemcpyDeviceToDevice);
    cudaMemcpyToSymbol(bn_shift, shift.data_ptr<float>(), channels * sizeof(float), 0, cudaMemcpyDeviceToDevice);
    auto y = torch::empty_like(x);
    constant_batch_norm_kernel<<<dim3((spatial + 31) / 32, channels, x.size(0)), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), channels, spatial);
    return y;
}

__device__ float block_total(float v) {
    static __shared__ float lanes[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    __syncthreads();  // the last call's readers are done
    if (lane == 0) lanes[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? lanes[lane] : 0.f;
    if (warp == 0) for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) lanes[0] = v;
    __syncthreads();
    return lanes[0];
}
__global__ void bfloat_instance_norm_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int spatial) {
    const __nv_bfloat16* plane = x + blockIdx.x * spatial;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < spatial; i += blockDim.x) s += __bfloat162float(plane[i]);
    const float mean = block_total(s) / spatial;
    for (int i = threadIdx.x; i < spatial; i += blockDim.x) {
        const float d = __bfloat162float(plane[i]) - mean;
        q += d * d;
    }
    const float inv = rsqrtf(block_total(q) / spatial + 1e-5f);
    for (int i = threadIdx.x; i < spatial; i += blockDim.x)
        y[blockIdx.x * spatial + i] = __float2bfloat16((__bfloat162float(plane[i]) - mean) * inv);
}
torch::Tensor bfloat_instance_norm(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int planes = x.size(0) * x.size(1);
    bfloat_instance_norm_kernel<<<planes, 64>>>((const __nv_bfloat16*)x.data_ptr<at::BFloat16>(), (__nv_bfloat16*)y.data_ptr<at::BFloat16>(), x.numel() / planes);
    return y;
}
"""
cpp = """
torch::Tensor welford_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b);
torch::Tensor half2_rms_norm(torch::Tensor x, torch::Tensor w);
torch::Tensor constant_batch_norm(torch::Tensor x, torch::Tensor mean, torch::Tensor var);
torch::Tensor bfloat_instance_norm(torch::Tensor x);
"""
names = ["welford_layer_norm", "half2_rms_norm", "constant_batch_norm", "bfloat_instance_norm"]
ops = load_inline(name="corpus_norms", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x, w, b = (torch.randn(*size, device="cuda") for size in ((9, 333), (333,), (333,)))
    half, scale = torch.randn(5, 90, device="cuda").half(), torch.rand(90, device="cuda").half()
    rms = half.float().pow(2).mean(1, keepdim=True).add(1e-6).rsqrt()
    image, mean, var = (
        torch.randn(2, 7, 5, 9, device="cuda"),
        torch.randn(7, device="cuda"),
        torch.rand(7, device="cuda"),
    )
    brain = torch.randn(2, 3, 11, 10, device="cuda").bfloat16()
    return {
        "welford_layer_norm": (ops.welford_layer_norm(x, w, b), F.layer_norm(x, (333,), w, b)),
        "half2_rms_norm": (ops.half2_rms_norm(half, scale), (half.float() * rms * scale.float()).half()),
        "constant_batch_norm": (ops.constant_batch_norm(image, mean, var), F.batch_norm(image, mean, var)),
        "bfloat_instance_norm": (ops.bfloat_instance_norm(brain), F.instance_norm(brain.float()).bfloat16()),
    }
