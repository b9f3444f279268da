// mbarriers and bulk copies. 128 threads a block.
#include <cstdint>

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t& bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(&bar)), "r"(count) : "memory");
}
__device__ void visible() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void expect(uint64_t& bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(&bar)), "r"(bytes) : "memory");
}
__device__ void arrive(uint64_t& bar) {
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(place(&bar)) : "memory");
}
__device__ void wait(uint64_t& bar, uint32_t parity) {
    asm volatile(
        "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; bra AGAIN; DONE: }" ::"r"(
            place(&bar)), "r"(parity) : "memory");
}
__device__ void load(void* to, const void* from, uint32_t bytes, uint64_t& bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place(to)),
                 "l"(from), "r"(bytes), "r"(place(&bar)) : "memory");
}
__device__ void store(void* to, const void* from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(place(from)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void wait_store() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// In by one bulk copy, doubled in place, out by another.
extern "C" __global__ void in_and_out(const float* x, float* y) {
    __shared__ __align__(128) float tile[512];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, sizeof tile);
        load(tile, x, sizeof tile, bar);
    }
    __syncthreads();
    wait(bar, 0);
    for (int i = t; i < 512; i += 128) tile[i] *= 2;
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        store(y, tile, sizeof tile);
        wait_store();
    }
}

// 12 bytes are written and 16 read: nothing uses the padding.
struct alignas(16) Three {
    float a, b, c;
};
extern "C" __global__ void padded(const float* x, float* y) {
    __shared__ Three threes[128];
    const int t = threadIdx.x;
    threes[t] = {x[t], 2 * x[t], 4 * x[t]};
    __syncthreads();
    const Three other = threes[127 - t];
    y[t] = other.a + other.b + other.c;
}

// A ring of three stages: one thread of warp 3 fills them, warps 0 to 2 empty them.
extern "C" __global__ void ring(const float* x, float* y, int steps) {
    __shared__ __align__(128) float stage[3][96];
    __shared__ __align__(8) uint64_t full[3], empty[3];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 3; s++) init(full[s], 1), init(empty[s], 3);
        visible();
    }
    __syncthreads();
    if (t == 96) {
        for (int i = 0; i < steps; i++) {
            const int s = i % 3;
            if (i >= 3) wait(empty[s], (i / 3 - 1) & 1);
            expect(full[s], 384);
            load(stage[s], x + i * 96, 192, full[s]);
            load(stage[s] + 48, x + i * 96 + 48, 192, full[s]);
        }
    } else if (t < 96) {
        float sum = 0;
        for (int i = 0; i < steps; i++) {
            const int s = i % 3;
            wait(full[s], i / 3 & 1);
            sum += stage[s][95 - t];
            proxy_fence();
            __syncwarp();
            if (t % 32 == 0) arrive(empty[s]);
        }
        y[t] = sum;
    }
}

// The same, where every warp reads all of a stage: it is free once a thread of each has said so.
extern "C" __global__ void read_by_all(const float* x, float* y, int steps) {
    __shared__ __align__(128) float stage[2][32];
    __shared__ __align__(8) uint64_t full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) init(full[s], 1), init(empty[s], 3);
        visible();
    }
    __syncthreads();
    if (t == 96) {
        for (int i = 0; i < steps; i++) {
            const int s = i % 2;
            if (i >= 2) wait(empty[s], (i / 2 - 1) & 1);
            expect(full[s], 128);
            load(stage[s], x + i * 32, 128, full[s]);
        }
    } else if (t < 96) {
        float sum = 0;
        for (int i = 0; i < steps; i++) {
            const int s = i % 2;
            wait(full[s], i / 2 & 1);
            for (int k = 0; k < 32; k++) sum += stage[s][k];
            proxy_fence();
            __syncwarp();
            if (t % 32 == 0) arrive(empty[s]);
        }
        y[t] = sum;
    }
}

// One warp waits for the copy; the others meet it at the block's barrier. Tokens in place of parities.
extern "C" __global__ void by_state(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar, all;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1), init(all, 128);
        visible();
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(place(&bar)), "r"(512) : "memory");
        load(tile, x, 512, bar);
        arrive(bar);
    }
    __syncthreads();
    if (t < 32) wait(bar, 0);
    __syncthreads();
    const float mine = tile[t ^ 1];
    uint64_t state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(place(&all)) : "memory");
    uint32_t over = 0;
    while (!over) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(place(&all)), "l"(state) : "memory");
    }
    tile[t] = mine;
    y[t] = tile[t];
}

// Sums of all blocks, added to memory by bulk reductions.
extern "C" __global__ void added(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    tile[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(y), "r"(place(tile)), "r"(512)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// cp.async of every thread, told to an mbarrier.
extern "C" __global__ void told(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(bar, 128);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place(&tile[t])), "l"(x + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(place(&bar)) : "memory");
    wait(bar, 0);
    y[t] = tile[127 - t];
}

// Broken: nobody waits for the copy.
extern "C" __global__ void not_waited(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 512);
        load(tile, x, 512, bar);
    }
    __syncthreads();
    y[t] = tile[t];  // here: not_waited
    __syncthreads();
    wait(bar, 0);
}

// Broken: only the first warp waits.
extern "C" __global__ void one_warp_waits(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 512);
        load(tile, x, 512, bar);
    }
    __syncthreads();
    if (t < 32) wait(bar, 0);
    y[t] = tile[t];  // here: one_warp_waits
    __syncthreads();
}

// Broken: parity 1 is that of the phase before the first, which is over.
extern "C" __global__ void wrong_parity(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 512);
        load(tile, x, 512, bar);
    }
    __syncthreads();
    wait(bar, 1);
    y[t] = tile[t];  // here: wrong_parity
    __syncthreads();
    wait(bar, 0);
}

// Broken: more bytes are expected than are copied.
extern "C" __global__ void never_full(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 1024);
        load(tile, x, 512, bar);
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; bra AGAIN; DONE: }"
        ::"r"(place(&bar)), "r"(0) : "memory");  // here: never_full
    y[t] = tile[t];
}

// Broken: the stage is filled again before it has been emptied.
extern "C" __global__ void refilled(const float* x, float* y) {
    __shared__ __align__(128) float stage[96];
    __shared__ __align__(8) uint64_t full;
    const int t = threadIdx.x;
    if (t == 0) {
        init(full, 1);
        visible();
    }
    __syncthreads();
    if (t == 96) {
        for (int i = 0; i < 2; i++) {
            if (i > 0) wait(full, 0);
            expect(full, 384);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place(stage)),
                         "l"(x + i * 96), "r"(384), "r"(place(&full)) : "memory");
        }
    } else if (t < 96) {
        float sum = 0;
        for (int i = 0; i < 2; i++) {
            wait(full, i);
            sum += stage[95 - t];  // here: refilled
        }
        y[t] = sum;
    }
}

// Broken, and right nearly always: an arrival does not hold the next copy back until what stands before it has been read.
extern "C" __global__ void refilled_unfenced(const float* x, float* y) {
    __shared__ __align__(128) float stage[96];
    __shared__ __align__(8) uint64_t full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        init(full, 1), init(empty, 96);
        visible();
    }
    __syncthreads();
    if (t == 96) {
        for (int i = 0; i < 2; i++) {
            if (i > 0) wait(empty, 0);
            expect(full, 384);
            load(stage, x + i * 96, 384, full);
        }
    } else if (t < 96) {
        float sum = 0;
        for (int i = 0; i < 2; i++) {
            wait(full, i);
            sum += stage[95 - t];  // here: refilled_unfenced
            arrive(empty);
        }
        y[t] = sum;
    }
}

// Broken: no fence between writing the tile and copying it out.
extern "C" __global__ void no_proxy_fence(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];  // there: no_proxy_fence
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     ::"l"(y), "r"(place(tile)), "r"(512) : "memory");  // here: no_proxy_fence
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        wait_store();
    }
}

// Broken: the tile is written again while it is copied out.
extern "C" __global__ void source_reused(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    const int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        tile[t] = x[i * 128 + t];  // here: source_reused
        proxy_fence();
        __syncthreads();
        if (t == 0) store(y + i * 128, tile, 512);
        __syncthreads();
    }
    if (t == 0) wait_store();
}

// Broken: 100 bytes are no multiple of 16.
extern "C" __global__ void odd_size(const float* x, float* y, int bytes) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(place(tile)), "l"(x), "r"(bytes), "r"(place(&bar)) : "memory");  // here: odd_size
    }
    __syncthreads();
    wait(bar, 0);
    y[t] = t < 25 ? tile[t] : 0;
}

// Broken: the copy reads beyond the tensor.
extern "C" __global__ void beyond(const float* x, float* y, int n) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 512);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(place(tile)), "l"(x + n - 64), "r"(512), "r"(place(&bar)) : "memory");  // here: beyond
    }
    __syncthreads();
    wait(bar, 0);
    y[t] = tile[t];
}

// Broken: the mbarrier is used before it is made.
extern "C" __global__ void never_made(const float* x, float* y) {
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    bar = 1;
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(place(&bar)) : "memory");  // here: never_made
    y[t] = x[t];
}

// Broken: made for 64 arrivals, 128 threads arrive.
extern "C" __global__ void too_many(const float* x, float* y) {
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) init(bar, 65);
    __syncthreads();
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0], 2; }" ::"r"(place(&bar)) : "memory");  // here: too_many
    y[t] = x[t];
}

// Broken: the block ends while the copy is on its way.
extern "C" __global__ void left_behind(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        init(bar, 1);
        visible();
        expect(bar, 512);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(place(tile)), "l"(x), "r"(512), "r"(place(&bar)) : "memory");  // here: left_behind
    }
    y[t] = x[t];
}
