// Kernels for checked execution: wrong in one way each, or right in a way that a careless checker would
// call wrong (names that begin with `right`). A line that a finding must name carries a marker comment.
#define FULL 0xffffffffu

__device__ float through(const float* p, int i) { return __ldg(p + i); }  // here: through

// ---- global memory
__global__ void no_guard(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }  // here: no_guard
extern "C" void wrong_no_guard(float* out) { no_guard<<<4, 256>>>(out); }
__global__ void neighbour(const float* x, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = x[i] - x[i + 1];  // here: neighbour
}
extern "C" void wrong_neighbour(const float* x, float* out, int n) { neighbour<<<1, 64>>>(x, out, n); }
__global__ void before(const float* x, float* out) { out[threadIdx.x] = through(x, (int)threadIdx.x - 1); }
extern "C" void wrong_before(const float* x, float* out) { before<<<1, 32>>>(x, out); }
__global__ void vector_tail(const float4* x, float* out, int n4) {
    float4 v = x[threadIdx.x];  // here: vector_tail
    if (threadIdx.x < n4) out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
extern "C" void wrong_vector_tail(const float* x, float* out) { vector_tail<<<1, 26>>>((const float4*)x, out, 26); }
__global__ void bytes(unsigned char* out) { out[threadIdx.x] = 1; }  // here: bytes
extern "C" void wrong_bytes(unsigned char* out, int n) { bytes<<<1, n>>>(out); }
__global__ void half_pair(const half2* x, half* out) {
    half2 pair = x[threadIdx.x];  // here: half_pair
    out[threadIdx.x] = __hadd(__low2half(pair), __high2half(pair));
}
extern "C" void wrong_half_pair(const half* x, half* out, int n) { half_pair<<<1, n>>>((const half2*)x, out); }
__global__ void shifted(const float4* x, float4* out) {
    out[threadIdx.x] = x[threadIdx.x];  // here: shifted
}
extern "C" void wrong_shifted(const float* x, float* out) { shifted<<<1, 4>>>((const float4*)(x + 1), (float4*)out); }
__global__ void copies(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }  // here: copies
extern "C" void wrong_null(float* out) { copies<<<1, 32>>>(nullptr, out); }
extern "C" void wrong_host(float* out) {
    float host[32] = {};
    copies<<<1, 32>>>(host, out);
}
extern "C" void wrong_freed(float* out) {
    float* scratch;
    cudaMalloc(&scratch, 128);
    cudaFree(scratch);
    copies<<<1, 32>>>(scratch, out);
}
extern "C" void wrong_wild(float* out) { copies<<<1, 32>>>((const float*)(1ull << 46), out); }
__global__ void divides(int* out, int by) {
    out[threadIdx.x] = 7 % (by + (int)threadIdx.x);  // here: divides
}
extern "C" void wrong_divide(float* out) { divides<<<1, 4>>>((int*)out, -2); }

// ---- between blocks
__global__ void plain_sum(float* sum) {
    if (threadIdx.x == 0) *sum += blockIdx.x;  // here: plain_sum
}
extern "C" void wrong_plain_sum(float* sum) { plain_sum<<<64, 32>>>(sum); }
__global__ void everybody_writes(float* out) {
    out[threadIdx.x] = blockIdx.x;  // here: everybody_writes
}
extern "C" void wrong_everybody_writes(float* out) { everybody_writes<<<8, 32>>>(out); }
__global__ void vectors_overlap(float4* out) {
    float v = blockIdx.x;
    out[threadIdx.x] = make_float4(v, v, v, v);  // here: vectors_overlap
}
extern "C" void wrong_vectors_overlap(float* out) { vectors_overlap<<<8, 8>>>((float4*)out); }
__global__ void same_flag(float* out) {
    if (threadIdx.x == 0) out[0] = 1;  // here: same_flag
}
extern "C" void wrong_same_flag(float* out) { same_flag<<<8, 32>>>(out); }
__global__ void no_fence(float* part, int* done, float* out) {
    part[blockIdx.x] = 1;
    if (atomicAdd(done, 1) == gridDim.x - 1) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += part[b];  // here: no_fence
        *out = sum;
    }
}
extern "C" void wrong_no_fence(float* part, int* done, float* out) { no_fence<<<32, 1>>>(part, done, out); }
__global__ void last_block(float* part, int* done, float* out) {
    part[blockIdx.x] = 1;
    __threadfence();
    if (atomicAdd(done, 1) == gridDim.x - 1) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; b++) sum += part[b];
        *out = sum;
    }
}
extern "C" void right_last_block(float* part, int* done, float* out) { last_block<<<32, 1>>>(part, done, out); }
__global__ void odd_rows(const half* x, half* out, int columns) {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = x[blockIdx.x * columns + i];
}
extern "C" void right_odd_rows(const half* x, half* out) { odd_rows<<<20, 32>>>(x, out, 33); }
__global__ void counts(int* out) {
    atomicAdd(out, 1);
    atomicMax(out + 1, (int)blockIdx.x);
}
extern "C" void right_counts(int* out) { counts<<<40, 64>>>(out); }
__global__ void adds_one(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
extern "C" void right_two_launches(float* x) {
    adds_one<<<4, 64>>>(x);
    adds_one<<<8, 32>>>(x);
}

// ---- shared memory
__global__ void too_little(float* out) {
    extern __shared__ float s[];
    s[threadIdx.x] = 1;  // here: too_little
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];  // here: too_little_read
}
extern "C" void wrong_too_little(float* out) { too_little<<<1, 64, 63 * sizeof(float)>>>(out); }
extern "C" void wrong_none_at_all(float* out) { too_little<<<1, 64>>>(out); }
__device__ float at(const float* p, int i) { return p[i]; }  // here: at
__global__ void past_static(float* out) {
    __shared__ float a[32];
    a[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = at(a, threadIdx.x + 1);
}
extern "C" void wrong_past_static(float* out) { past_static<<<1, 32>>>(out); }
__global__ void index_plus_one(float* out) {
    __shared__ float a[32];
    a[threadIdx.x + 1] = 1;  // here: index_plus_one
    out[threadIdx.x] = 1;
}
extern "C" void wrong_index_plus_one(float* out) { index_plus_one<<<1, 32>>>(out); }
__global__ void local_index(float* out, int n) {
    float v[4] = {1, 2, 3, 4};
    for (int i = 0; i < n; i++) v[i] += i;  // here: local_index
    out[threadIdx.x] = v[threadIdx.x & 3];
}
extern "C" void wrong_local_index(float* out) { local_index<<<1, 32>>>(out, 5); }
__global__ void next_row(float* out) {
    __shared__ float tile[4][8];
    int i = threadIdx.x;
    tile[0][i] = i;  // here: next_row
    __syncthreads();
    out[i] = tile[i / 8][i % 8];
}
extern "C" void wrong_next_row(float* out) { next_row<<<1, 32>>>(out); }
__global__ void never_set(float* out) {
    __shared__ float s[64];
    if (threadIdx.x < 32) s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 1];  // here: never_set
}
extern "C" void wrong_never_set(float* out) { never_set<<<1, 32>>>(out); }
__global__ void never_zeroed(int* out) {
    __shared__ int bins[16];
    atomicAdd(&bins[threadIdx.x & 15], 1);  // here: never_zeroed
    __syncthreads();
    if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}
extern "C" void wrong_never_zeroed(float* out) { never_zeroed<<<1, 64>>>((int*)out); }
__global__ void no_barrier(float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;  // here: no_barrier_other
    out[threadIdx.x] = s[63 - threadIdx.x];  // here: no_barrier
}
extern "C" void wrong_no_barrier(float* out) { no_barrier<<<1, 64>>>(out); }
__global__ void no_second_barrier(float* out) {
    __shared__ float s[64];
    float sum = 0;
    for (int k = 0; k < 3; k++) {
        s[threadIdx.x] = k;  // here: no_second_barrier
        __syncthreads();
        sum += s[63 - threadIdx.x];  // here: no_second_barrier_other
    }
    out[threadIdx.x] = sum;
}
extern "C" void wrong_no_second_barrier(float* out) { no_second_barrier<<<1, 64>>>(out); }
__global__ void all_write_one(float* out, int same) {
    __shared__ float s;
    s = same ? 3 : threadIdx.x;  // here: all_write_one
    __syncthreads();
    out[threadIdx.x] = s;
}
extern "C" void wrong_all_write_one(float* out, int same) { all_write_one<<<1, 64>>>(out, same); }
__global__ void reads_the_count(int* out) {
    __shared__ int n;
    if (threadIdx.x == 0) n = 0;
    __syncthreads();
    atomicAdd(&n, 1);  // here: reads_the_count_other
    out[threadIdx.x] = n;  // here: reads_the_count
}
extern "C" void wrong_reads_the_count(float* out) { reads_the_count<<<1, 64>>>((int*)out); }
__global__ void warp_no_sync(float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[threadIdx.x ^ 1];  // here: warp_no_sync
}
extern "C" void wrong_warp_no_sync(float* out) { warp_no_sync<<<1, 32>>>(out); }
__global__ void warp_synchronous(const float* x, float* out) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];  // here: warp_synchronous
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0) out[0] = s[0];
}
extern "C" void legacy_warp(const float* x, float* out) { warp_synchronous<<<1, 64>>>(x, out); }
__global__ void ordered_by_warp(float* out) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t & 31;
    s[t] = t;
    __syncwarp();
    float v = s[t ^ 1];
    __syncwarp();
    s[t] = v + 1;
    v = __shfl_xor_sync(FULL, v, 2);
    v += s[t ^ 4];
    unsigned tile = 0xffu << (lane & ~7);
    __syncwarp();
    s[t] = v;
    __syncwarp(tile);
    v += s[t ^ 7];
    __syncwarp(tile);
    s[t] = v;
    __syncwarp();
    out[t] = s[t ^ 31];
}
extern "C" void right_ordered_by_warp(float* out) { ordered_by_warp<<<1, 64>>>(out); }
__global__ void lock_and_add(float* out) {
    __shared__ int lock;
    __shared__ float sum;
    if (threadIdx.x == 0) {
        atomicExch(&lock, 0);
        sum = 0;
    }
    __syncthreads();
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            sum += 1;
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
    }
    __syncthreads();
    out[threadIdx.x] = sum;
}
extern "C" void right_lock_and_add(float* out) { lock_and_add<<<1, 64>>>(out); }
__global__ void bytes_side_by_side(unsigned char* out) {
    __shared__ unsigned char s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    s[threadIdx.x] = s[threadIdx.x] + 1;
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" void right_bytes_side_by_side(float* out) { bytes_side_by_side<<<1, 64>>>((unsigned char*)out); }
__constant__ float weights[4] = {1, 2, 3, 4};
__device__ float table[64];
struct Taps { float w[4]; };
__global__ void other_memory(float* out, Taps taps) {
    float local[8];
    for (int i = 0; i < 8; i++) local[(i + threadIdx.x) & 7] = i;
    table[threadIdx.x] = weights[threadIdx.x & 3] * taps.w[threadIdx.x & 3];
    out[threadIdx.x] = table[threadIdx.x] + local[threadIdx.x & 7];
}
extern "C" void right_other_memory(float* out) {
    auto kernel = other_memory;
    kernel<<<1, 64>>>(out, Taps{{1, 2, 3, 4}});
}

#define DECLARE_FLAGS __shared__ int flags[64]
__global__ void copies_bytes(const float* x, float* out, int n) {
    __shared__ float s[64];
    DECLARE_FLAGS;
    flags[threadIdx.x] = 1;
    if (threadIdx.x == 0) memcpy(s, x, n * sizeof(float));  // here: copies_bytes
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % n] * flags[threadIdx.x];
}
extern "C" void run_copies_bytes(const float* x, float* out, int n) { copies_bytes<<<1, 64>>>(x, out, n); }

__device__ float handed[64];
__device__ int counted;
template <bool fenced> __global__ void last_gathers(float* out) {
    handed[blockIdx.x] = blockIdx.x + 1.f;
    if (fenced) __threadfence();
    if (atomicAdd(&counted, 1) != (int)gridDim.x - 1) return;
    float sum = 0;
    for (int k = 0; k < gridDim.x; k++) sum += handed[k];  // here: last_gathers
    *out = sum;
    counted = 0;
}
extern "C" void right_last_gathers(float* out) { last_gathers<true><<<64, 1>>>(out); }
extern "C" void wrong_last_gathers(float* out) { last_gathers<false><<<64, 1>>>(out); }
