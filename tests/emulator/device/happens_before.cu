// Order by fences, flags, locks and barriers between blocks of a launch and between warps of a block: right and wrong.
#include <cuda_runtime.h>

// Blocks hand a sum on, each after the one before it.
enum { kRight, kEarlyFence, kNoFence, kBlockFence, kNoBarrier, kWrongFlag };
template <int how> __global__ void chain(float* part, volatile int* flags, float* out) {
    const int b = blockIdx.x, t = threadIdx.x;
    __shared__ float before;
    if (t == 0) {
        if (b > 0) {
            const int waits_for = how == kWrongFlag ? max(b - 2, 0) : b - 1;
            while (flags[waits_for] == 0) {}
        }
        before = 0;
    }
    __syncthreads();
    if (b > 0) before = 0;
    __syncthreads();
    float sum = b > 0 ? part[(b - 1) * 64 + t] : 0.f;  // here: chain
    if (how == kEarlyFence) __threadfence();
    part[b * 64 + t] = sum + 1;
    if (how != kNoBarrier) __syncthreads();
    if (t == 0) {
        if (how == kRight || how == kNoBarrier || how == kWrongFlag) __threadfence();
        if (how == kBlockFence) __threadfence_block();
        flags[b] = 1;
    }
    out[b * 64 + t] = sum;
}
#define CHAIN(name, how) \
    extern "C" void name(float* part, int* flags, float* out) { chain<how><<<8, 64>>>(part, flags, out); }
CHAIN(right_chain, kRight)
CHAIN(wrong_early_fence, kEarlyFence)
CHAIN(wrong_no_fence, kNoFence)
CHAIN(wrong_block_fence, kBlockFence)
CHAIN(wrong_no_barrier, kNoBarrier)
CHAIN(wrong_other_flag, kWrongFlag)

// What a block knows of blocks before its predecessor.
__global__ void transitive(float* part, int* flags, float* out) {
    const int b = blockIdx.x;
    if (b > 0) {
        while (atomicAdd(&flags[b - 1], 0) == 0) {}
    }
    float sum = 0;
    for (int k = 0; k < b; k++) sum += part[k];
    part[b] = b;
    __threadfence();
    atomicExch(&flags[b], 1);
    out[b] = sum;
}
extern "C" void right_transitive(float* part, int* flags, float* out) { transitive<<<8, 1>>>(part, flags, out); }

// Every thread fences for itself, and one of them counts after a barrier, as in NVIDIA's sample.
__global__ void all_fence(float* part, int* count, float* out) {
    __shared__ bool last;
    part[blockIdx.x * 64 + threadIdx.x] = 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(count, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += part[b * 64 + threadIdx.x];
    out[threadIdx.x] = sum;
}
extern "C" void right_all_fence(float* part, int* count, float* out) { all_fence<<<8, 64>>>(part, count, out); }

// Tickets and fences, but a block reads the carry of one that it has not waited for.
__global__ void nobody_waits(float* part, int* ticket, float* out) {
    const int mine = atomicAdd(ticket, 1);
    out[mine] = mine >= 8 ? part[mine - 8] : 0.f;  // here: nobody_waits
    part[mine] = mine;
    __threadfence();
}
extern "C" void wrong_nobody_waits(float* part, int* ticket, float* out) { nobody_waits<<<32, 1>>>(part, ticket, out); }

// A lock that a plain store opens again.
template <bool fenced> __global__ void locked(float* part, int* lock, float* out) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    part[0] += 1;  // here: locked
    if (fenced) __threadfence();
    if (fenced) {
        *lock = 0;
    } else {
        atomicExch(lock, 0);
    }
}
extern "C" void right_locked(float* part, int* lock, float* out) { locked<true><<<8, 1>>>(part, lock, out); }
extern "C" void wrong_locked(float* part, int* lock, float* out) { locked<false><<<8, 1>>>(part, lock, out); }

// Atomic for the block alone, and used by several.
__global__ void block_counts(float*, int* count, float* out) {
    atomicAdd_block(count, 1);  // here: block_counts
}
extern "C" void wrong_block_counts(float* part, int* count, float* out) { block_counts<<<8, 32>>>(part, count, out); }
__global__ void own_counts(float*, int* count, float* out) {
    atomicAdd_block(count + blockIdx.x, 1);
    atomicAdd(count + blockIdx.x, 1);
    __syncthreads();
    out[blockIdx.x] = count[blockIdx.x];
}
extern "C" void right_own_counts(float* part, int* count, float* out) { own_counts<<<8, 64>>>(part, count, out); }

// Two warps of a block, with a flag in shared memory.
template <bool fenced, bool polls> __global__ void warps(float* part, int*, float* out) {
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        part[0] = 7;
        if (fenced) __threadfence_block();
        flag = 1;
    }
    if (threadIdx.x >= 32) {
        while (flag == 0) {}
        out[threadIdx.x] = polls ? *(volatile float*)part : part[0];  // here: warps
    }
}
extern "C" void right_warps(float* part, int* flags, float* out) { warps<true, false><<<1, 64>>>(part, flags, out); }
extern "C" void wrong_warps(float* part, int* flags, float* out) { warps<false, false><<<1, 64>>>(part, flags, out); }
extern "C" void wrong_warps_volatile(float* part, int* flags, float* out) { warps<false, true><<<1, 64>>>(part, flags, out); }

template <bool barrier> __global__ void turned(float* part, int*, float* out) {
    const int t = threadIdx.x;
    part[t] = t;
    if (barrier) __syncthreads();
    out[t] = part[63 - t];  // here: turned
    if (barrier) __syncthreads();
    part[t] = out[t];
}
extern "C" void right_turned(float* part, int* flags, float* out) { turned<true><<<1, 64>>>(part, flags, out); }
extern "C" void wrong_turned(float* part, int* flags, float* out) { turned<false><<<1, 64>>>(part, flags, out); }
__global__ void overwritten(float* part, int*, float* out) {
    const int t = threadIdx.x;
    out[t] = part[63 - t];
    part[t] = 0;  // here: overwritten
}
extern "C" void wrong_overwritten(float* part, int* flags, float* out) { overwritten<<<1, 64>>>(part, flags, out); }
__global__ void bytes_of_two_warps(float* part, int*, float* out) {
    char* bytes = reinterpret_cast<char*>(part);
    bytes[threadIdx.x % 32 * 2 + threadIdx.x / 32] = 1;
}
extern "C" void right_bytes_of_two_warps(float* part, int* f, float* out) { bytes_of_two_warps<<<1, 64>>>(part, f, out); }

// By the read-only cache: before the thread writes there, and after.
__global__ void in_place(float* part, int*, float* out) {
    part[threadIdx.x] = __ldg(part + threadIdx.x) + 1;
}
extern "C" void right_in_place(float* part, int* flags, float* out) { in_place<<<1, 64>>>(part, flags, out); }
__global__ void written_first(float* part, int*, float* out) {
    part[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = __ldg(part + 63 - threadIdx.x);  // here: written_first
}
extern "C" void wrong_written_first(float* part, int* flags, float* out) { written_first<<<1, 64>>>(part, flags, out); }
