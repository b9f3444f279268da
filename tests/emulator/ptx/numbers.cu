// Arithmetic through nvcc: library functions, halves, doubles, integers of every width.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void gelu_both(const float* x, float* exact, float* approximate, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    exact[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    approximate[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

__global__ void elementary(const float* x, float* out, int n) {
    int i = threadIdx.x;
    float v = x[i];
    out[i] = expf(v);
    out[n + i] = logf(fabsf(v) + 0.1f);
    out[2 * n + i] = sinf(v * 100.0f);
    out[3 * n + i] = powf(fabsf(v), 1.7f);
    out[4 * n + i] = sqrtf(fabsf(v));
    out[5 * n + i] = atan2f(v, 0.5f);
    out[6 * n + i] = log1pf(v * v);
    out[7 * n + i] = expm1f(v);
    out[8 * n + i] = fmodf(v * 10.0f, 3.0f);
    out[9 * n + i] = rintf(v * 4.0f);
    out[10 * n + i] = cbrtf(v);
    out[11 * n + i] = __expf(v) + __logf(fabsf(v) + 1.0f);
}

__global__ void doubles(const double* x, double* out, int n) {
    int i = threadIdx.x;
    double v = x[i];
    out[i] = exp(v);
    out[n + i] = log(fabs(v) + 0.1);
    out[2 * n + i] = sin(v * 1e6);
    out[3 * n + i] = pow(fabs(v), 1.7);
    out[4 * n + i] = erf(v);
    out[5 * n + i] = tgamma(fabs(v) + 1.0);
    out[6 * n + i] = v / (1.0 + v * v);
}

__global__ void half_polynomial(const __half* x, __half* y, int n) {
    int i = 2 * threadIdx.x;
    if (i + 1 >= n) return;
    __half2 v = *reinterpret_cast<const __half2*>(x + i);
    __half2 r = __hfma2(v, v, __float2half2_rn(0.5f));
    r = __hmul2(r, __hadd2(v, __float2half2_rn(1.0f)));
    *reinterpret_cast<__half2*>(y + i) = __hmax2(r, __float2half2_rn(0.0f));
}

__global__ void bfloat_norm(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    __shared__ float parts[4];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = __bfloat162float(x[blockIdx.x * n + i]);
        sum += v * v;
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = sum;
    __syncthreads();
    sum = parts[0] + parts[1] + parts[2] + parts[3];
    float scale = rsqrtf(sum / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = __float2bfloat16(__bfloat162float(x[blockIdx.x * n + i]) * scale);
}

__global__ void integer_mix(const unsigned* x, unsigned* out, unsigned divisor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i];
    unsigned h = v ^ (v >> 16);
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h = h % divisor + __popc(v) * 3 + __clz(v) + __brev(v) / 7 + __ffs(v);
    h += __umulhi(v, 0xdeadbeefu) + __byte_perm(v, h, 0x5140) + __funnelshift_l(v, h, 7);
    unsigned long long wide = static_cast<unsigned long long>(v) * v / (divisor + 1ull);
    out[i] = h ^ static_cast<unsigned>(wide >> 5) ^ static_cast<unsigned>(static_cast<int>(v) / -3);
}
