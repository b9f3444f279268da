// Faults in shared memory: bounds, values that nobody wrote, races within a block.
#include <torch/extension.h>
#include <cuda_fp16.h>

static torch::Tensor fresh(int n) { return torch::empty({n}, torch::TensorOptions().device(torch::kCUDA)); }
__global__ void warm_up(float* x) { x[threadIdx.x] += 1; }

__global__ void neighbour(const float* x, float* y) {
    __shared__ float row[128];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const float* next = row + 1;
    y[threadIdx.x] = next[threadIdx.x];  // here: static_read_beyond
}
torch::Tensor static_read_beyond(torch::Tensor x) {
    auto y = fresh(128);
    neighbour<<<1, 128>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void mirrored(const float* x, float* y) {
    extern __shared__ float line[];
    line[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = line[blockDim.x - threadIdx.x];  // here: dynamic_read_beyond
}
torch::Tensor dynamic_read_beyond(torch::Tensor x) {
    auto y = fresh(96);
    mirrored<<<1, 96, 96 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename V>
__device__ float corner(const V* row, int at) { const V v = row[at]; return v.x * v.w; }  // here: vector_read_beyond
template <typename V>
__global__ void corners(const float* x, float* y) {
    __shared__ V row[16];
    if (threadIdx.x < 16) row[threadIdx.x] = V{x[threadIdx.x], 0, 0, 1};
    __syncthreads();
    y[threadIdx.x] = corner(&row[0], threadIdx.x + 1);
}
torch::Tensor vector_read_beyond(torch::Tensor x) {
    auto y = fresh(16);
    warm_up<<<1, 16>>>(x.data_ptr<float>());
    corners<float4><<<1, 16>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void padded_row(const float* x, float* y) {
    __shared__ float row[62];
    float* cell = row;
    cell[threadIdx.x] = x[threadIdx.x];  // here: static_write_beyond
    __syncthreads();
    if (threadIdx.x < 62) y[threadIdx.x] = row[61 - threadIdx.x];
}
torch::Tensor static_write_beyond(torch::Tensor x) {
    auto y = fresh(62);
    padded_row<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void half_the_bytes(const float* x, float* y) {
    extern __shared__ float copy[];
    copy[threadIdx.x] = x[threadIdx.x];  // here: dynamic_too_small
    __syncthreads();
    y[threadIdx.x] = copy[threadIdx.x ^ 1];
}
torch::Tensor dynamic_too_small(torch::Tensor x) {
    auto y = fresh(256);
    half_the_bytes<<<1, 256, 256 * sizeof(at::Half)>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename T>
__device__ void push(T* stack, int* depth, T v) { stack[atomicAdd(depth, 1)] = v; }  // here: full_stack
template <typename T, int N>
__global__ void positives(const T* x, T* y) {
    __shared__ T stack[N];
    __shared__ int depth;
    if (threadIdx.x == 0) depth = 0;
    __syncthreads();
    push<T>(stack, &depth, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < N) y[threadIdx.x] = stack[threadIdx.x];
}
torch::Tensor full_stack(torch::Tensor x) {
    auto y = fresh(40);
    warm_up<<<1, 48>>>(x.data_ptr<float>());
    positives<float, 40><<<1, 48>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void quad_rows(const float4* x, float* y) {
    __shared__ float4 cells[30];
    float4* to = cells;
    to[threadIdx.x] = x[threadIdx.x];  // here: vector_write_beyond
    __syncthreads();
    y[threadIdx.x] = cells[threadIdx.x % 30].y;
}
torch::Tensor vector_write_beyond(torch::Tensor x) {
    auto y = fresh(32);
    quad_rows<<<1, 32>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()), y.data_ptr<float>());
    return y;
}

__global__ void digit_counts(const float* x, int* y) {
    __shared__ int digits[10];
    int* bin = digits;
    if (threadIdx.x < 10) digits[threadIdx.x] = 0;
    __syncthreads();
    const int digit = min((int)(fabsf(x[threadIdx.x]) * 10), 10);
    atomicAdd(&bin[digit], 1);  // here: atomic_write_beyond
    __syncthreads();
    if (threadIdx.x < 10) y[threadIdx.x] = digits[threadIdx.x];
}
torch::Tensor atomic_write_beyond(torch::Tensor x) {
    auto y = torch::zeros({10}, x.options().dtype(torch::kInt));
    digit_counts<<<1, 200>>>(x.data_ptr<float>(), y.data_ptr<int>());
    return y;
}

__global__ void sparse_row(const float* x, float* y) {
    __shared__ float row[64];
    if (threadIdx.x % 2 == 0) row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[threadIdx.x];  // here: static_unset
}
torch::Tensor static_unset(torch::Tensor x) {
    auto y = fresh(64);
    sparse_row<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void block_maximum(const float* x, float* y, int n) {
    extern __shared__ float best[];
    if (threadIdx.x < n) best[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + step]);  // here: dynamic_unset
        __syncthreads();
    }
    if (threadIdx.x == 0) *y = best[0];
}
torch::Tensor dynamic_unset(torch::Tensor x) {
    auto y = fresh(1);
    block_maximum<<<1, 128, 512>>>(x.data_ptr<float>(), y.data_ptr<float>(), 100);
    return y;
}

template <typename V> __device__ float dot(const V& v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }  // here: vector_unset
template <typename V>
__global__ void quad_norms(const float* x, float* y) {
    __shared__ V quads[32];
    float* parts = reinterpret_cast<float*>(quads);
    for (int i = threadIdx.x; i < 124; i += blockDim.x) parts[i] = x[i];
    __syncthreads();
    y[threadIdx.x] = dot<V>(quads[threadIdx.x]);
}
torch::Tensor vector_unset(torch::Tensor x) {
    auto y = fresh(32);
    warm_up<<<1, 32>>>(x.data_ptr<float>());
    quad_norms<float4><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void bins_without_zeros(const float* x, int* y) {
    __shared__ int bins[4];
    atomicAdd(&bins[(int)fabsf(x[threadIdx.x]) % 4], 1);  // here: atomic_unset
    __syncthreads();
    if (threadIdx.x < 4) y[threadIdx.x] = bins[threadIdx.x];
}
torch::Tensor atomic_unset(torch::Tensor x) {
    auto y = torch::zeros({4}, x.options().dtype(torch::kInt));
    bins_without_zeros<<<1, 50>>>(x.data_ptr<float>(), y.data_ptr<int>());
    return y;
}

__global__ void broadcast_scale(const float* x, float* y) {
    __shared__ float scale;
    // The last thread sets it, and no barrier separates that from the readers.
    if (threadIdx.x == blockDim.x - 1) scale = 1.0f / x[0];
    y[threadIdx.x] = x[threadIdx.x] * scale;  // here: unset_before_the_barrier
    __syncthreads();
}
torch::Tensor unset_before_the_barrier(torch::Tensor x) {
    auto y = fresh(96);
    broadcast_scale<<<1, 96>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void warp_base(const float* x, int* counter, float* y) {
    __shared__ int base;
    const unsigned kept = __ballot_sync(0xffffffffu, x[threadIdx.x] > 0);
    if (threadIdx.x == 31) base = atomicAdd(counter, __popc(kept));
    y[threadIdx.x] = base + __popc(kept & ((1u << threadIdx.x) - 1));  // here: unset_before_the_syncwarp
}
torch::Tensor unset_before_the_syncwarp(torch::Tensor x) {
    auto counter = torch::zeros({1}, x.options().dtype(torch::kInt));
    auto y = fresh(32);
    warp_base<<<1, 32>>>(x.data_ptr<float>(), counter.data_ptr<int>(), y.data_ptr<float>());
    return y;
}

__global__ void reverse_row(const float* x, float* y) {
    __shared__ float row[256];
    row[threadIdx.x] = x[threadIdx.x];  // there: missing_barrier
    y[threadIdx.x] = row[threadIdx.x / 2];  // here: missing_barrier
}
torch::Tensor missing_barrier(torch::Tensor x) {
    auto y = fresh(256);
    reverse_row<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void ping_without_pong(const float* x, float* y, int rounds) {
    extern __shared__ float cells[];
    const int t = threadIdx.x, n = blockDim.x;
    cells[t] = x[t];
    __syncthreads();
    for (int k = 0; k < rounds; k++) {
        const float left = cells[(t + n - 1) % n];  // here: racing_relaxation
        cells[t] = 0.5f * (cells[t] + left);  // there: racing_relaxation
        __syncthreads();
    }
    y[t] = cells[t];
}
torch::Tensor racing_relaxation(torch::Tensor x) {
    auto y = fresh(64);
    ping_without_pong<<<1, 64, 64 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), 3);
    return y;
}

__global__ void warp_without_sync(const float* x, float* y) {
    __shared__ float lanes[32];
    float v = x[threadIdx.x];
    const float total = __shfl_xor_sync(0xffffffffu, v, 16) + v;
    lanes[threadIdx.x] = total;  // here: missing_syncwarp
    y[threadIdx.x] = lanes[31 - threadIdx.x];  // there: missing_syncwarp
}
torch::Tensor missing_syncwarp(torch::Tensor x) {
    auto y = fresh(32);
    warp_without_sync<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename V>
__device__ void put(V* quads, int at, float v) { quads[at / 4] = V{v, v, v, v}; }  // here: racing_quads
template <typename V>
__global__ void quads_by_element(const float* x, float* y) {
    __shared__ V quads[8];
    put(quads, threadIdx.x, x[threadIdx.x]);
    __syncthreads();
    y[threadIdx.x] = quads[threadIdx.x / 4].x;
}
torch::Tensor racing_quads(torch::Tensor x) {
    auto y = fresh(32);
    warm_up<<<1, 32>>>(x.data_ptr<float>());
    quads_by_element<float4><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void count_then_read(const float* x, int* y) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (x[threadIdx.x] > 0) atomicAdd(&count, 1);  // here: racing_counter
    if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = count;  // there: racing_counter
}
torch::Tensor racing_counter(torch::Tensor x) {
    auto y = torch::zeros({4}, x.options().dtype(torch::kInt));
    count_then_read<<<1, 128>>>(x.data_ptr<float>(), y.data_ptr<int>());
    return y;
}

__global__ void tile_column(const float* x, float* y, int column) {
    __shared__ float tile[8][8];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 8 + threadIdx.x];
    __syncthreads();
    if (threadIdx.y == 0) y[threadIdx.x] = tile[threadIdx.x][column];  // here: tile_index
}
torch::Tensor tile_index(torch::Tensor x) {
    auto y = fresh(8);
    tile_column<<<1, dim3(8, 8)>>>(x.data_ptr<float>(), y.data_ptr<float>(), 8);
    return y;
}

__global__ void decades(const float* x, int* y) {
    __shared__ int bins[10];
    if (threadIdx.x < 10) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x / 10 + (x[threadIdx.x] < 0)], 1);  // here: bin_index
    __syncthreads();
    if (threadIdx.x < 10) y[threadIdx.x] = bins[threadIdx.x];
}
torch::Tensor bin_index(torch::Tensor x) {
    auto y = torch::zeros({10}, x.options().dtype(torch::kInt));
    decades<<<1, 120>>>(x.data_ptr<float>(), y.data_ptr<int>());
    return y;
}

template <typename V>
__device__ V quad_at(const float* row, int at) { return *reinterpret_cast<const V*>(row + at); }  // here: misaligned_shared
template <typename V>
__global__ void rolling_quads(const float* x, float* y) {
    __shared__ float row[40];
    row[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 8) row[32 + threadIdx.x] = 0;
    __syncthreads();
    const V v = quad_at<V>(row, threadIdx.x);
    y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
torch::Tensor misaligned_shared(torch::Tensor x) {
    auto y = fresh(32);
    warm_up<<<1, 32>>>(x.data_ptr<float>());
    rolling_quads<float4><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void doubles_behind_floats(const float* x, float* y, int n) {
    extern __shared__ char raw[];
    float* firsts = reinterpret_cast<float*>(raw);
    double* wide = reinterpret_cast<double*>(firsts + n);
    firsts[threadIdx.x] = x[threadIdx.x];
    wide[threadIdx.x] = x[threadIdx.x];  // here: misaligned_dynamic
    __syncthreads();
    y[threadIdx.x] = firsts[n - 1 - threadIdx.x] + wide[threadIdx.x];
}
torch::Tensor misaligned_dynamic(torch::Tensor x) {
    auto y = fresh(33);
    doubles_behind_floats<<<1, 33, 33 * 12>>>(x.data_ptr<float>(), y.data_ptr<float>(), 33);
    return y;
}
