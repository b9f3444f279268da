// Kernels that use one mechanism each, as generated code writes them; test_runtime.py checks the numbers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;
#define FULL 0xffffffffu
#define BLOCKS(n, t) (((n) + (t) - 1) / (t))

// ---- elementwise, vector types, launches of every form
template <typename T, int Unroll = 2>
__global__ void __launch_bounds__(256, 2) scale(const T* __restrict__ x, T* __restrict__ y, int n, T factor) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * Unroll;
#pragma unroll
    for (int i = first; i < first + Unroll && i < n; i++) y[i] = x[i] * factor;
}
__global__ void shift(const float* x, float* y, int n, float by) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + by;
}
__global__ void shift(const int* x, int* y, int n, int by) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + by;
}
__global__ void add4(const float4* a, const float4* b, float4* c, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        float4 u = a[i], v = __ldg(&b[i]);
        c[i] = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
    }
}
#define LAUNCH_SCALE(KERNEL, n, ...) \
    do {                             \
        KERNEL<<<BLOCKS(n, 512), 256>>>(__VA_ARGS__); \
    } while (0)
extern "C" void run_scale_template(const float* x, float* y, int n) { scale<float><<<BLOCKS(n, 512), 256>>>(x, y, n, 2); }
extern "C" void run_scale_deduced(const float* x, float* y, int n) { scale<<<BLOCKS(n, 512), 256, 0, 0>>>(x, y, n, 2.0f); }
extern "C" void run_scale_macro(const float* x, float* y, int n) { LAUNCH_SCALE((scale<float, 2>), n, x, y, n, 2); }
extern "C" void run_scale_pointer(const float* x, float* y, int n) {
    auto kernel = &scale<float, 1>;
    kernel<<<BLOCKS(n, 256), 256>>>(x, y, n, 2);
}
extern "C" void run_scale_lambda(const float* x, float* y, int n) {
    [&] {
        using scalar_t = float;
        const dim3 blockDim(128), gridDim(BLOCKS(n, 256));  // names that shadow CUDA's
        scale<scalar_t>
            <<<gridDim,  // grid
               blockDim>>>(
                x, y,    // in, out
                n, static_cast<scalar_t>(2));
    }();
}
extern "C" void run_overloads(const float* x, float* y, const int* i, int* j, int n) {
    shift<<<3, 100>>>(x, y, n, 1);
    shift<<<3, 100>>>(i, j, n, 1);
}
extern "C" void run_evaluated_once(const float* x, float* y, int n, int* calls) {
    auto counted = [&](int value) { ++*calls; return value; };
    scale<float><<<counted(BLOCKS(n, 512)), counted(256)>>>(x, y, counted(n), 2);
}
extern "C" void run_add4(const float* a, const float* b, float* c, int n) {
    add4<<<BLOCKS(n / 4, 64), 64>>>((const float4*)a, (const float4*)b, (float4*)c, n / 4);
}

// ---- reductions, normalisation, softmax
template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
    for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_down_sync(FULL, v, offset);
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? partial[lane] : 0.0f;
    if (warp == 0) v = warp_sum(v);
    if (threadIdx.x == 0) partial[0] = v;
    __syncthreads();
    return partial[0];
}
__global__ void layer_norm(const float* x, float* y, int width, float eps) {
    const float* row = x + (size_t)blockIdx.x * width;
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += row[i];
    const float mean = block_sum(sum) / width;
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    const float rstd = rsqrtf(block_sum(squares) / width + eps);
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[(size_t)blockIdx.x * width + i] = (row[i] - mean) * rstd;
}
extern "C" void run_layer_norm(const float* x, float* y, int rows, int width) {
    layer_norm<<<rows, 256>>>(x, y, width, 1e-5f);
}
__global__ void softmax(const float* x, float* y, int width) {
    extern __shared__ float row[];
    __shared__ float largest, total;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < width; i += blockDim.x) m = fmaxf(m, row[i] = x[blockIdx.x * width + i]);
    for (int o = 16; o; o /= 2) m = max(m, __shfl_xor_sync(FULL, m, o));
    if (threadIdx.x == 0) largest = m;
    __syncwarp();
    float s = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) s += row[i] = expf(row[i] - largest);
    s = warp_sum(s);
    if (!threadIdx.x) total = s;
    __syncwarp();
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = __fdividef(row[i], total);
}
extern "C" void run_softmax(const float* x, float* y, int rows, int width) {
    softmax<<<rows, 32, width * sizeof(float)>>>(x, y, width);
}

// ---- shared memory: tiles, several declarators, structs, alignment, dynamic memory carved up
template <int Tile>
__global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float as[Tile][Tile], bs[Tile][Tile + 1];
    const int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += Tile) {
        as[threadIdx.y][threadIdx.x] = row < n && k0 + threadIdx.x < n ? a[row * n + k0 + threadIdx.x] : 0.f;
        bs[threadIdx.y][threadIdx.x] = column < n && k0 + threadIdx.y < n ? b[(k0 + threadIdx.y) * n + column] : 0.f;
        __syncthreads();
        for (int k = 0; k < Tile; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
extern "C" void run_matmul(const float* a, const float* b, float* c, int n) {
    const dim3 block(16, 16);
    matmul<16><<<dim3(BLOCKS(n, 16), BLOCKS(n, 16)), block>>>(a, b, c, n);
}
struct Pair { float value; int index; };
extern __shared__ float file_scope[];
__global__ void shared_kinds(float* out) {
    __shared__ Pair pairs[2];
    __shared__ alignas(16) float aligned[3], spare;
    __shared__ float4 quad;
    volatile __shared__ int flag;
    __shared__ union { float f; int i; } bits;
    int* integers = (int*)&file_scope[blockDim.x];
    if (threadIdx.x == 0) {
        pairs[1] = {1.5f, 7};
        aligned[2] = 2.0f;
        spare = 3.0f;
        quad = make_float4(1, 2, 3, 4);
        flag = 5;
        bits.f = 1.0f;
    }
    file_scope[threadIdx.x] = threadIdx.x;
    integers[threadIdx.x] = 10 * threadIdx.x;
    __syncthreads();
    const int other = blockDim.x - 1 - threadIdx.x;
    out[threadIdx.x] = file_scope[other] + integers[other];
    if (threadIdx.x == 0)
        out[blockDim.x] = pairs[1].value + pairs[1].index + aligned[2] + spare + quad.w + flag + (bits.i == 0x3f800000);
}
extern "C" void run_shared_kinds(float* out) { shared_kinds<<<1, 64, 64 * (sizeof(float) + sizeof(int))>>>(out); }
__global__ void unwritten(float* out) {
    __shared__ float values[32];
    extern __shared__ float dynamic[];
    out[threadIdx.x] = values[threadIdx.x];
    out[32 + threadIdx.x] = dynamic[threadIdx.x];
    values[threadIdx.x] = dynamic[threadIdx.x] = 1.0f;
}
extern "C" void run_unwritten(float* out) {
    for (int launch = 0; launch < 2; launch++) unwritten<<<4, 32, 128>>>(out);
}
extern "C" void run_big_dynamic(float* out) {
    cudaFuncSetAttribute(shared_kinds, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
    shared_kinds<<<1, 64, 100 * 1024>>>(out);
}

// ---- device variables
__constant__ float coefficients[4];
__constant__ float offset_value;
__device__ int counter;
__global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = offset_value;
    for (int k = 0; k < 4; k++) v = v * x[i] + coefficients[k];
    y[i] = v;
    atomicAdd(&counter, 1);
}
extern "C" int run_polynomial(const float* x, float* y, int n, const float* c) {
    int zero = 0, result = -1;
    const float start = 0.5f;
    cudaMemcpyToSymbol(coefficients, c, 4 * sizeof(float));
    cudaMemcpyToSymbol(offset_value, &start, sizeof(float));
    cudaMemcpyToSymbol(counter, &zero, sizeof(int));
    polynomial<<<BLOCKS(n, 128), 128>>>(x, y, n);
    if (cudaMemcpyToSymbol(counter, c, 8) != cudaErrorInvalidValue) return -2;
    if (cudaGetLastError() != cudaErrorInvalidValue) return -3;
    cudaMemcpyFromSymbol(&result, counter, sizeof(int));
    return result;
}

// ---- warp operations: 64 threads, results by thread
__global__ void warp_ops(int* out) {
    const int t = threadIdx.x, lane = t % 32, n = blockDim.x;
    out[0 * n + t] = __shfl_sync(FULL, t, 3);
    out[1 * n + t] = __shfl_up_sync(FULL, t, 1);
    out[2 * n + t] = __shfl_down_sync(FULL, t, 2, 8);
    out[3 * n + t] = __shfl_xor_sync(FULL, t, 5);
    out[4 * n + t] = __ballot_sync(FULL, lane % 3 == 0);
    out[5 * n + t] = __any_sync(FULL, t == 40);
    out[6 * n + t] = __all_sync(FULL, t < 32);
    out[7 * n + t] = __match_any_sync(FULL, lane / 5);
    out[8 * n + t] = __reduce_add_sync(FULL, t);
    out[9 * n + t] = __reduce_max_sync(FULL, -t) + __reduce_min_sync(FULL, (unsigned)t);
    if (lane % 2) {
        out[10 * n + t] = __activemask();
    } else {
        out[10 * n + t] = __activemask();
    }
    out[11 * n + t] = lane < 8 ? __reduce_add_sync(0xffu, 1) : __reduce_xor_sync(~0xffu, 1u << lane);
    int same;
    __match_all_sync(FULL, t / 32, &same);
    out[12 * n + t] = same;
    out[13 * n + t] = (int)__shfl_sync(FULL, (double)t + 0.5, 31) + (int)__shfl_sync(FULL, (long long)t << 33, 1);
    out[14 * n + t] = __syncthreads_count(t < 10) + 100 * __syncthreads_and(t < 64) + 1000 * __syncthreads_or(t > 62);
}
extern "C" void run_warp_ops(int* out) { warp_ops<<<1, 64>>>(out); }
__global__ void aggregate(const float* x, int* kept, int n) {  // filter with one atomic for each group
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(kept, (int)active.size());
    }
}
extern "C" void run_aggregate(const float* x, int* kept, int n) { aggregate<<<BLOCKS(n, 96), 96>>>(x, kept, n); }
__global__ void groups(const float* x, float* sums, float* total) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto quad = cg::tiled_partition<4>(warp);
    const float v = x[block.thread_rank()];
    const float s = cg::reduce(quad, v, cg::plus<float>());
    if (quad.thread_rank() == 0) sums[quad.meta_group_rank()] = s;
    const float m = cg::reduce(warp, v, cg::greater<float>());
    if (warp.thread_rank() == 0) total[warp.meta_group_rank()] = m;
    block.sync();
    if (block.thread_rank() == 0) total[block.size() / 32] = warp.size() + quad.size();
}
extern "C" void run_groups(const float* x, float* sums, float* total) { groups<<<1, 64>>>(x, sums, total); }

// ---- atomics
__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    atomicAdd(&i[0], 1); atomicSub(&i[1], 2); atomicMin(&i[2], -t); atomicMax(&i[3], t);
    atomicInc(&u[0], 6); atomicDec(&u[1], 4); atomicAnd(&u[2], ~(1u << t % 8)); atomicOr(&u[3], 1u << t % 8);
    atomicXor(&u[4], t); atomicAdd(&l[0], 1ull << 33); atomicMax(&l[1], (unsigned long long)t << 40);
    atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
    unsigned long long* word = (unsigned long long*)&d[1];  // the double atomicMax of the programming guide
    unsigned long long seen = *word, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(word, assumed, __double_as_longlong(fmax((double)t, __longlong_as_double(assumed))));
    } while (assumed != seen);
    while (atomicExch(&i[4], 1) != 0) {}  // a lock
    i[5] += 1;
    __threadfence();
    atomicExch(&i[4], 0);
}
extern "C" void run_atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, int n) {
    atomics<<<BLOCKS(n, 64), 64>>>(i, u, l, f, d, n);
}

// ---- half precision, math, conversions
__global__ void halves(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    __half h = __float2half(x[i]);
    __half2 pair = __halves2half2(h, __float2half(1.0f));
    pair = __hfma2(pair, pair, __float2half2_rn(1.0f));
    __nv_bfloat16 b = __float2bfloat16(x[i]);
    y[i] = __low2float(pair) + __half2float(hexp(h)) + __bfloat162float(__hmul(b, b)) + __half2float(hrsqrt(__float2half(4.0f)));
}
extern "C" void run_halves(const float* x, float* y, int n) { halves<<<1, 64>>>(x, y, n); }
__global__ void math(const float* x, float* y, int* k, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = __expf(v); y[n + i] = __logf(fabsf(v) + 1); y[2 * n + i] = normcdff(v); y[3 * n + i] = erfinvf(tanhf(v));
    y[4 * n + i] = __saturatef(v); y[5 * n + i] = rsqrt(v * v + 1); y[6 * n + i] = __fmaf_rn(v, v, 1); y[7 * n + i] = fminf(v, max(0.5f, -v));
    k[i] = __float2int_rd(v); k[n + i] = __popc(i) + __clz(i + 1) + __ffs(i); k[2 * n + i] = (int)__brev(i);
    k[3 * n + i] = __float2int_rz(v * 1e12f); k[4 * n + i] = __umulhi(0x80000000u, 2u * i) + min(i, 3);
    k[5 * n + i] = __float_as_int(v); k[6 * n + i] = __dp4a(0x01020304, i, 1); k[7 * n + i] = (int)__byte_perm(0x33221100, 0x77665544, 0x7160);
}
extern "C" void run_math(const float* x, float* y, int* k, int n) { math<<<1, 64>>>(x, y, k, n); }

// ---- the rest of the language
__global__ void chatty(long long* ticks) {
    const long long before = clock64();
    assert(blockDim.x == 2);
    if (threadIdx.x == 1) printf("block %d says %.2f\n", blockIdx.x, 1.5);
    __nanosleep(10);
    ticks[threadIdx.x] = clock64() - before;
}
extern "C" void run_chatty(long long* ticks) {
    chatty<<<1, 2>>>(ticks);
    fflush(stdout);
}
__global__ void index(int* out) {
    const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = 1000 * b + t;
}
extern "C" void run_index(int* out) { index<<<dim3(2, 3, 4), dim3(5, 3, 2)>>>(out); }
__device__ unsigned finished_blocks;
__global__ void last_block(const float* x, float* partial, float* out, int n) {  // one launch, two phases
    __shared__ bool last;
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    s = block_sum(s);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s;
        __threadfence();
        last = atomicInc(&finished_blocks, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float total = 0;
        for (int b = 0; b < gridDim.x; b++) total += ((volatile float*)partial)[b];
        *out = total;
    }
}
extern "C" void run_last_block(const float* x, float* partial, float* out, int n) { last_block<<<40, 256>>>(x, partial, out, n); }
