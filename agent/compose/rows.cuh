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
// NaN is the extreme of whatever holds one.
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

// Python's a // b.
__device__ inline int64_t floor_of(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// What the threads of a row hold, together: the same in each of them. A row is one thread, a part of a warp, or a block.
template <typename Op, typename T>
__device__ inline T of_row(T mine) {
    const int width = blockDim.x < 32 ? blockDim.x : 32;
    for (int apart = width / 2; apart > 0; apart /= 2) mine = Op::of(mine, __shfl_xor_sync(kAll, mine, apart));
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

// What the threads of a row hold up to each one; `all` becomes what they hold together.
template <typename Op, typename T>
__device__ inline T up_to(T mine, T& all) {
    const int width = blockDim.x < 32 ? blockDim.x : 32, lane = threadIdx.x % 32;
    for (int apart = 1; apart < width; apart *= 2) {
        const T other = __shfl_up_sync(kAll, mine, apart, width);
        if (lane % width >= apart) mine = Op::of(other, mine);
    }
    all = __shfl_sync(kAll, mine, width - 1, width);
    if (blockDim.x <= 32) return mine;
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
    return Op::of(before, mine);
}

// Rows of few elements share a block; rows whose elements lie apart take a thread each.
static dim3 block_of(int64_t inner, bool across) {
    unsigned width = 1;
    while (!across && width < 256 && int64_t(width) * 4 <= inner) width *= 2;
    return dim3(width, width < 256 ? 256 / width : 1);
}
