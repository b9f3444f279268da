// Barriers with a number, and small instructions of sm_80 and sm_90. 128 threads a block.
#include <cstdint>

__device__ void sync(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
__device__ void arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// The first two warps fill a buffer, the others empty it: barrier 1 says full, barrier 2 empty.
extern "C" __global__ void hand_over(const float* x, float* y) {
    __shared__ float buffer[64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int round = 0; round < 4; round++) {
            if (round > 0) sync(2, 128);
            buffer[t] = x[round * 64 + t] * 2;
            arrive(1, 128);
        }
    } else {
        for (int round = 0; round < 4; round++) {
            sync(1, 128);
            y[round * 64 + t - 64] = buffer[127 - t];
            if (round < 3) arrive(2, 128);
        }
    }
}

// Each pair of warps has a barrier of its own.
extern "C" __global__ void own_barriers(const float* x, float* y) {
    __shared__ float buffer[128];
    const int t = threadIdx.x, pair = t / 64;
    buffer[t] = x[t];
    sync(1 + pair, 64);
    y[t] = buffer[t ^ 63];
}

extern "C" __global__ void counted(const float* x, int* y) {
    const int t = threadIdx.x;
    int more;
    asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, 0f00000000; barrier.cta.red.popc.aligned.u32 %0, 3, 128, p; }"
                 : "=r"(more) : "f"(x[t]));
    y[t] = more;
}

extern "C" __global__ void elected(const float* x, float* y) {
    const int t = threadIdx.x;
    uint32_t leads;
    uint64_t policy;
    float value;
    asm volatile("{ .reg .pred p; .reg .b32 r; elect.sync r|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(leads));
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(x + t), "l"(policy));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + t));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(y + t), "f"(leads ? -value : value), "l"(policy));
}

// Broken: barrier 2 in place of barrier 1 for the second pair, so that two pairs meet and neither waits for its own.
extern "C" __global__ void pairs_mixed_up(const float* x, float* y) {
    __shared__ float buffer[128];
    const int t = threadIdx.x, pair = t / 32 % 2;
    buffer[t] = x[t];  // there: pairs_mixed_up
    sync(1 + pair, 64);
    y[t] = buffer[t ^ 63];  // here: pairs_mixed_up
}

// Broken: nobody says that the buffer is empty again.
extern "C" __global__ void never_empty(const float* x, float* y) {
    __shared__ float buffer[64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int round = 0; round < 4; round++) {
            if (round > 0) asm volatile("bar.sync 2, 128;" ::: "memory");  // there: never_empty
            buffer[t] = x[round * 64 + t] * 2;
            arrive(1, 128);
        }
    } else {
        for (int round = 0; round < 4; round++) {
            asm volatile("bar.sync 1, 128;" ::: "memory");  // here: never_empty
            y[round * 64 + t - 64] = buffer[127 - t];
        }
    }
}

// Broken: the second round is written while others read the first.
extern "C" __global__ void refilled_early(const float* x, float* y) {
    __shared__ float buffer[64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int round = 0; round < 2; round++) {
            buffer[t] = x[round * 64 + t] * 2;  // there: refilled_early
            asm volatile("bar.sync 1, 128;" ::: "memory");
        }
    } else {
        for (int round = 0; round < 2; round++) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            y[round * 64 + t - 64] = buffer[127 - t];  // here: refilled_early
        }
    }
}

// Broken: the sides do not agree how many there are.
extern "C" __global__ void counts_differ(const float* x, float* y) {
    const int t = threadIdx.x;
    if (t < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory");  // here: counts_differ
    }
    y[t] = x[t];
}

// Broken: 40 is no number of whole warps.
extern "C" __global__ void no_whole_warps(const float* x, float* y, int number) {
    const int t = threadIdx.x;
    if (t < 40) asm volatile("barrier.cta.sync 1, %0;" ::"r"(number) : "memory");  // here: no_whole_warps
    y[t] = x[t];
}

// Broken: barriers go from 0 to 15.
extern "C" __global__ void sixteenth(const float* x, float* y, int number) {
    const int t = threadIdx.x;
    asm volatile("barrier.cta.sync %0, 128;" ::"r"(number) : "memory");  // here: sixteenth
    y[t] = x[t];
}
