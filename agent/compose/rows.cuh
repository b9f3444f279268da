// Shared code of the composed kernels: reductions and scans along rows, division of indices, and block shapes.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <limits>

constexpr unsigned kAll = 0xffffffffu;

struct Sum {
    template <typename T> __device__ static T none() { return T(0); }
    template <typename T> __device__ static T of(T a, T b) { return a + b; }
};
struct Prod {
    template <typename T> __device__ static T none() { return T(1); }
    template <typename T> __device__ static T of(T a, T b) { return a * b; }
};
// NaN wins over every number.
struct Max {
    template <typename T> __device__ static T none() {
        return std::numeric_limits<T>::has_infinity ? T(-INFINITY) : std::numeric_limits<T>::lowest();
    }
    template <typename T> __device__ static T of(T a, T b) { return a > b || a != a ? a : b; }
};
struct Min {
    template <typename T> __device__ static T none() {
        return std::numeric_limits<T>::has_infinity ? T(INFINITY) : std::numeric_limits<T>::max();
    }
    template <typename T> __device__ static T of(T a, T b) { return a < b || a != a ? a : b; }
};

// Mean, sum of squared distances to it, and count of the elements so far: one pass, without cancellation.
struct Spread {
    float mean, apart, count;
};
struct Moments {
    template <typename T> __device__ static Spread none() { return {0.0f, 0.0f, 0.0f}; }
    __device__ static Spread of(Spread a, float x) {
        const float count = a.count + 1.0f, d = x - a.mean, mean = a.mean + d / count;
        return {mean, a.apart + d * (x - mean), count};
    }
    template <int V> __device__ static Spread of_all(Spread a, const float (&x)[V]) {
        float sum = x[0], apart = 0.0f;
        for (int u = 1; u < V; ++u) sum += x[u];
        const float mean = sum / V;
        for (int u = 0; u < V; ++u) apart += (x[u] - mean) * (x[u] - mean);
        return of(a, Spread{mean, apart, float(V)});
    }
    __device__ static Spread of(Spread a, Spread b) {
        const float count = a.count + b.count, d = b.mean - a.mean;
        const float share = count > 0.0f ? b.count / count : 0.0f;
        return {a.mean + d * share, a.apart + b.apart + d * d * a.count * share, count};
    }
};

// Maximum of the elements so far and the sum of exp(x - maximum), in one pass.
struct Exponentials {
    float most, sum;
};
struct Softmax {
    template <typename T> __device__ static Exponentials none() { return {-INFINITY, 0.0f}; }
    __device__ static Exponentials of(Exponentials a, float x) {
        if (x == -INFINITY) return a;
        const float d = x - a.most, e = expf(-fabsf(d));
        if (d > 0.0f) return {x, a.sum * e + (x - x + 1.0f)};
        return {a.most, a.sum + e};
    }
    template <int V> __device__ static Exponentials of_all(Exponentials a, const float (&x)[V]) {
        float most = a.most;
        for (int u = 0; u < V; ++u) most = fmaxf(most, x[u]);
        const float from = most == -INFINITY ? 0.0f : most;
        float sum = a.sum * expf(a.most - from);
        for (int u = 0; u < V; ++u) sum += expf(x[u] - from);
        return {most, sum};
    }
    __device__ static Exponentials of(Exponentials a, Exponentials b) {
        if (b.most == -INFINITY && b.sum == 0.0f) return a;
        if (b.most > a.most) return {b.most, b.sum + a.sum * expf(a.most - b.most)};
        return {a.most, a.sum + b.sum * expf(b.most - a.most)};
    }
};

// Combines `a` with V adjacent elements. These are combined first, so that only one operation waits for `a`.
template <typename Op, typename T, int V> __device__ inline T of_all(T a, const T (&x)[V]) {
    T all = x[0];
    for (int u = 1; u < V; ++u) all = Op::of(all, x[u]);
    return Op::of(a, all);
}
template <typename Op, int V> __device__ inline Spread of_all(Spread a, const float (&x)[V]) {
    return Op::of_all(a, x);
}
template <typename Op, int V> __device__ inline Exponentials of_all(Exponentials a, const float (&x)[V]) {
    return Op::of_all(a, x);
}

// Returns the value of the lane whose number differs by the bits of `apart`.
template <typename T> __device__ inline T of_other(T mine, int apart) { return __shfl_xor_sync(kAll, mine, apart); }
__device__ inline Spread of_other(Spread mine, int apart) {
    return {of_other(mine.mean, apart), of_other(mine.apart, apart), of_other(mine.count, apart)};
}
__device__ inline Exponentials of_other(Exponentials mine, int apart) {
    return {of_other(mine.most, apart), of_other(mine.sum, apart)};
}

// Divisor of non-negative indices. In 32 bits the division is a multiplication by the reciprocal and a shift.
template <typename I> struct Divisor {
    I size;
    explicit Divisor(int64_t by) : size(by) {}
};
template <> struct Divisor<int> {
    int size;
    unsigned factor = 1, shift = 0;
    explicit Divisor(int64_t by) : size(int(by)) {
        while ((int64_t(1) << shift) < by) ++shift;
        if (by > 0) factor = unsigned((uint64_t((int64_t(1) << shift) - by) << 32) / uint64_t(by) + 1);
    }
};
__device__ inline int operator/(int number, const Divisor<int>& by) {
    const unsigned high = unsigned((uint64_t(unsigned(number)) * by.factor) >> 32);
    return int((high + unsigned(number)) >> by.shift);
}
__device__ inline int operator%(int number, const Divisor<int>& by) { return number - number / by * by.size; }
__device__ inline int64_t operator/(int64_t number, const Divisor<int64_t>& by) { return number / by.size; }
__device__ inline int64_t operator%(int64_t number, const Divisor<int64_t>& by) { return number % by.size; }

// Python's a // b.
__device__ inline int64_t floor_of(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Reduces over the threads of a row and returns the result to each. A row is a thread, a part of a warp, or a block.
template <typename Op, typename T>
__device__ inline T of_row(T mine) {
    const int width = blockDim.x < 32 ? blockDim.x : 32;
    for (int apart = width / 2; apart > 0; apart /= 2) mine = Op::of(mine, of_other(mine, apart));
    if (blockDim.x <= 32) return mine;
    __shared__ T of_warp[32];
    const unsigned warps = blockDim.x / 32, first = threadIdx.y * warps;
    if (threadIdx.x % 32 == 0) of_warp[first + threadIdx.x / 32] = mine;
    __syncthreads();
    T all = of_warp[first];
    for (unsigned warp = 1; warp < warps; ++warp) all = Op::of(all, of_warp[first + warp]);
    __syncthreads();
    return all;
}

// Exclusive scan over the threads of a row; `all` receives the reduction over all of them.
template <typename Op, typename T>
__device__ inline T ahead_of(T mine, T& all) {
    const int width = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % 32;
    for (int apart = 1; apart < width; apart *= 2) {
        const T other = __shfl_up_sync(kAll, mine, apart, width);
        if (lane % width >= apart) mine = Op::of(other, mine);
    }
    all = __shfl_sync(kAll, mine, width - 1, width);
    T ahead = __shfl_up_sync(kAll, mine, 1, width);
    if (lane % width == 0) ahead = Op::template none<T>();
    if (blockDim.x <= 32) return ahead;
    __shared__ T of_warp[32];
    const unsigned warps = blockDim.x / 32, first = threadIdx.y * warps;
    if (lane == 31) of_warp[first + threadIdx.x / 32] = mine;
    __syncthreads();
    T before = Op::template none<T>();
    all = Op::template none<T>();
    for (unsigned warp = 0; warp < warps; ++warp) {
        if (warp == threadIdx.x / 32) before = all;
        all = Op::of(all, of_warp[first + warp]);
    }
    __syncthreads();
    return Op::of(before, ahead);
}

// Rows of few elements share a block of `threads` threads. If the elements of a row lie apart, it gets one thread.
static dim3 block_of(int64_t inner, bool across, unsigned threads) {
    unsigned width = 1;
    while (!across && width < threads && int64_t(width) * 4 <= inner) width *= 2;
    return dim3(width, threads / width);
}

// Returns true if four adjacent elements can be loaded at once.
static bool is_aligned(const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0;
}
