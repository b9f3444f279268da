// Faults of control: barriers, warp operations, launches, assertions, locks, recursion.
#include <torch/extension.h>
#include <cooperative_groups.h>

static torch::Tensor fresh(int n) { return torch::empty({n}, torch::TensorOptions().device(torch::kCUDA)); }
__global__ void start(float* x) { x[threadIdx.x] = threadIdx.x; }
#define ALL 0xffffffffu

__global__ void split_barrier(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 40) {
        __syncthreads();  // here: barrier_in_branches
        y[threadIdx.x] = s[63 - threadIdx.x];
    } else {
        __syncthreads();
        y[threadIdx.x] = -s[63 - threadIdx.x];
    }
}
torch::Tensor barrier_in_branches(torch::Tensor x) {
    auto y = fresh(64);
    split_barrier<<<2, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <int ROUNDS>
__device__ float rounds_of(float v) {
    for (int k = (int)(threadIdx.x % 2); k < ROUNDS; k++) {
        v = v * 0.5f + 1;
        __syncthreads();  // here: uneven_rounds
    }
    return v;
}
template <int ROUNDS>
__global__ void uneven(float* x) {
    x[threadIdx.x] = rounds_of<ROUNDS>(x[threadIdx.x]);
    __syncthreads();
}
torch::Tensor uneven_rounds(torch::Tensor x) {
    start<<<1, 64>>>(x.data_ptr<float>());
    uneven<3><<<1, 64>>>(x.data_ptr<float>());
    return x;
}

__global__ void guard_before_barrier(const float* x, float* y, int n) {
    __shared__ float s[128];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();  // here: return_before_barrier
    y[i] = s[threadIdx.x ^ 1];
}
torch::Tensor return_before_barrier(torch::Tensor x) {
    auto y = torch::empty_like(x);
    guard_before_barrier<<<8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

template <typename T>
__device__ T publish(T v, T* cell) {
    if (threadIdx.x == 0) *cell = v;
    __syncthreads();  // here: rows_that_left
    return *cell;
}
template <typename T>
__global__ void rows(const T* x, T* y, int limit) {
    __shared__ T cell;
    if (threadIdx.y >= limit) return;
    y[threadIdx.y * blockDim.x + threadIdx.x] = publish(x[0], &cell);
}
torch::Tensor rows_that_left(torch::Tensor x) {
    auto y = torch::zeros({64}, x.options());
    start<<<1, 10>>>(x.data_ptr<float>());
    rows<float><<<1, dim3(16, 4)>>>(x.data_ptr<float>(), y.data_ptr<float>(), 3);
    return y;
}

__global__ void shuffle_in_branch(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 2 == 0) v += __shfl_down_sync(ALL, v, 2);  // here: half_a_warp_shuffles
    __syncthreads();
    y[threadIdx.x] = v;
}
torch::Tensor half_a_warp_shuffles(torch::Tensor x) {
    auto y = fresh(64);
    shuffle_in_branch<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename T>
__device__ T warp_total(T v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(ALL, v, o);  // here: total_of_some
    return v;
}
template <typename T>
__global__ void masked_total(const T* x, T* y) {
    T v = x[threadIdx.x];
    if (v > T(0)) v = warp_total(v);
    __syncthreads();
    y[threadIdx.x] = v;
}
torch::Tensor total_of_some(torch::Tensor x) {
    start<<<1, 16>>>(x.data_ptr<float>());
    auto y = fresh(32);
    masked_total<float><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void tail_lanes(const float* x, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = __popc(__ballot_sync(ALL, x[i] > 0));  // here: ballot_after_exit
}
torch::Tensor ballot_after_exit(torch::Tensor x) {
    auto y = torch::zeros({1000}, x.options().dtype(torch::kInt));
    tail_lanes<<<16, 64>>>(x.data_ptr<float>(), y.data_ptr<int>(), 1000);
    return y;
}

template <int WIDTH>
__device__ float from_above(float v) { return __shfl_down_sync(ALL, v, 1, WIDTH); }  // here: shuffle_after_exit
template <int WIDTH>
__global__ void differences(const float* x, float* y) {
    if (threadIdx.x > 20) return;
    y[threadIdx.x] = from_above<WIDTH>(x[threadIdx.x]) - x[threadIdx.x];
}
torch::Tensor shuffle_after_exit(torch::Tensor x) {
    auto y = torch::zeros({32}, x.options());
    start<<<1, 32>>>(x.data_ptr<float>());
    differences<32><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void wrong_mask(const float* x, float* y) {
    const unsigned mask = 0x3ff;
    y[threadIdx.x] = __shfl_xor_sync(mask, x[threadIdx.x], 4);  // here: mask_of_ten
}
torch::Tensor mask_of_ten(torch::Tensor x) {
    auto y = fresh(32);
    wrong_mask<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename T>
__device__ bool any_negative(T v, unsigned mask) { return __any_sync(mask, v < T(0)); }  // here: mask_of_the_other_half
template <typename T>
__global__ void half_votes(const T* x, T* y) {
    const unsigned mask = threadIdx.x % 32 < 16 ? 0xffff0000u : 0x0000ffffu;
    y[threadIdx.x] = any_negative(x[threadIdx.x], mask) ? T(1) : T(0);
}
torch::Tensor mask_of_the_other_half(torch::Tensor x) {
    auto y = fresh(32);
    start<<<1, 32>>>(x.data_ptr<float>());
    half_votes<float><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void one_per_pixel(const float* x, float* y) {
    const int i = threadIdx.y * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
torch::Tensor block_too_large(torch::Tensor x) {
    auto y = torch::zeros_like(x);
    one_per_pixel<<<1, dim3(40, 40)>>>(x.data_ptr<float>(), y.data_ptr<float>());  // here: block_too_large
    return y;
}

__global__ void whole_row(const float* x, float* y, int n) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[i];
    __syncthreads();
    y[threadIdx.x] = row[n - 1 - threadIdx.x];
}
torch::Tensor dynamic_beyond_the_limit(torch::Tensor x) {
    auto y = torch::zeros_like(x);
    whole_row<<<1, 256, 16384 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), 1000);  // here: dynamic_beyond_the_limit
    return y;
}

template <typename T, int V>
__global__ void strided(const T* x, T* y, int n) { for (int i = blockIdx.x; i < n; i += V * gridDim.x) y[i] = x[i]; }
torch::Tensor empty_grid(torch::Tensor x) {
    auto y = torch::zeros_like(x);
    start<<<1, 64>>>(x.data_ptr<float>());
    const int few = 100;
    strided<float, 4><<<few / 128, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), few);  // here: empty_grid
    return y;
}

template <typename T, int N>
__device__ T through_cache(T v) {
    __shared__ T cache[N];  // here: static_and_dynamic_beyond_the_limit
    cache[threadIdx.x] = v;
    return cache[threadIdx.x];
}
template <typename T, int N>
__global__ void cached(const T* x, T* y) {
    extern __shared__ unsigned char bytes[];
    bytes[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = through_cache<T, N>(x[threadIdx.x]) + bytes[threadIdx.x];
}
torch::Tensor static_and_dynamic_beyond_the_limit(torch::Tensor x) {
    auto y = torch::zeros({64}, x.options());
    start<<<1, 64>>>(x.data_ptr<float>());
    cached<float, 8000><<<1, 64, 20000>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void checked_lookup(const int* index, const float* x, float* y, int n) {
    const int at = index[threadIdx.x];
    assert(at >= 0 && at < n);  // here: failing_assertion
    y[threadIdx.x] = x[at];
}
torch::Tensor failing_assertion(torch::Tensor x) {
    auto index = torch::arange(64, x.options().dtype(torch::kInt)) * 20;
    auto y = torch::zeros({64}, x.options());
    checked_lookup<<<1, 64>>>(index.data_ptr<int>(), x.data_ptr<float>(), y.data_ptr<float>(), 1000);
    return y;
}

template <typename T>
__device__ T root(T v) {
    if (v < T(0)) __trap();  // here: trap_on_negative
    return sqrt(v);
}
template <typename T>
__global__ void roots(const T* x, T* y) { y[threadIdx.x] = root(x[threadIdx.x] - T(5)); }
torch::Tensor trap_on_negative(torch::Tensor x) {
    auto y = torch::zeros({10}, x.options());
    start<<<1, 10>>>(x.data_ptr<float>());
    roots<float><<<1, 10>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void spin_before_barrier(float* y) {
    __shared__ int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    // Thread 0 waits for the others, and they wait for thread 0 at the barrier.
    if (threadIdx.x == 0) while (atomicCAS(&ready, 63, 0) != 63) {}  // here: lock_never_opened
    __syncthreads();
    atomicAdd(&ready, 1);
    y[threadIdx.x] = ready;
}
torch::Tensor lock_never_opened(torch::Tensor x) {
    auto y = torch::zeros({64}, x.options());
    spin_before_barrier<<<1, 64>>>(y.data_ptr<float>());
    return y;
}

template <typename T>
__device__ void lock(T* mutex) { while (atomicExch(mutex, T(1)) != T(0)) {} }  // here: lock_never_released
template <typename T>
__global__ void locked_add(const float* x, float* y, T* mutex) {
    lock(mutex);
    *y += x[blockIdx.x];
    __threadfence();  // the unlocking store is missing
}
torch::Tensor lock_never_released(torch::Tensor x) {
    auto y = torch::zeros({1}, x.options());
    auto mutex = torch::zeros({1}, x.options().dtype(torch::kInt));
    start<<<1, 5>>>(x.data_ptr<float>());
    locked_add<int><<<5, 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), mutex.data_ptr<int>());
    return y;
}

template <typename T>
__device__ T cell_of(T index, T width) { return index / width; }  // here: zero_width
template <typename T>
__global__ void cells(T* y, T width) { y[threadIdx.x] = cell_of<T>(threadIdx.x, width); }
torch::Tensor zero_width(torch::Tensor x) {
    start<<<1, 5>>>(x.data_ptr<float>());
    auto y = torch::zeros({32}, x.options().dtype(torch::kInt));
    cells<int><<<1, 32>>>(y.data_ptr<int>(), (int)x.numel() / 2000);
    return y;
}

template <typename T>
__device__ T ackermann(T m, T n, volatile T* trail) {
    volatile T frame[64];
    frame[n & 63] = trail[0] + m;
    if (m == 0) return n + 1 + (frame[n & 63] & 0);
    if (n == 0) return ackermann<T>(m - 1, 1, frame);
    return ackermann<T>(m - 1, ackermann<T>(m, n - 1, frame), frame) + (frame[n & 63] & 0);
}
template <typename T>
__global__ void recursion(T* y, T m) {
    volatile T trail[1] = {0};
    *y = ackermann<T>(m, 12, trail);
}
torch::Tensor stack_overflow(torch::Tensor x) {
    start<<<1, 5>>>(x.data_ptr<float>());
    auto y = torch::zeros({1}, x.options().dtype(torch::kInt));
    recursion<int><<<1, 1>>>(y.data_ptr<int>(), 3);
    return y;
}
