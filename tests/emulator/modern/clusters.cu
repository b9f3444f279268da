// Clusters of two to four blocks, 64 threads each.
#include <cooperative_groups.h>
#include <cstdint>

namespace cg = cooperative_groups;

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ uint32_t peer(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ uint32_t rank() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Each block reads what the next one of its cluster wrote.
extern "C" __global__ void neighbours(const float* x, float* y) {
    __shared__ float mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, at = blockIdx.x * 64 + t;
    mine[t] = x[at];
    cluster.sync();
    const float* there = cluster.map_shared_rank(mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    y[at] = there[63 - t] + 100 * cluster.block_rank();
    cluster.sync();
}

// Counts of all blocks are added up in the shared memory of block 0.
extern "C" __global__ void histogram(const int* x, int* y, int n) {
    __shared__ int bins[16];
    const int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    arrive();
    wait();
    uint32_t size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    for (int i = rank() * 64 + t; i < n; i += size * 64) {
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" ::"r"(peer(place(&bins[x[i]]), 0)) : "memory");
    }
    arrive();
    wait();
    if (rank() == 0 && t < 16) y[t] = bins[t];
}

// Totals go to every block by st.async, whose mbarrier counts them.
extern "C" __global__ void exchanged(const float* x, float* y) {
    __shared__ __align__(16) float totals[4];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x, at = blockIdx.x * 64 + t;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&bar)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" ::"r"(place(&bar)) : "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    wait();
    if (t < 4) {
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(peer(place(&totals[rank()]), t)),
                     "r"(__float_as_uint(x[blockIdx.x * 64])), "r"(peer(place(&bar), t)) : "memory");
    }
    uint32_t over = 0;
    while (!over) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(place(&bar)) : "memory");
    }
    y[at] = totals[0] + totals[1] + totals[2] + totals[3];
}

// One block loads for both; each tells the other that its stage is free by a remote arrival.
extern "C" __global__ void multicast(const float* x, float* y, int steps) {
    __shared__ __align__(128) float stage[64];
    __shared__ __align__(8) uint64_t full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&full)) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(place(&empty)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    arrive();
    wait();
    float sum = 0;
    for (int i = 0; i < steps; i++) {
        if (t == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(place(&full)) : "memory");
            if (rank() == 0) {
                if (i > 0) {
                    uint32_t over = 0;
                    while (!over) {
                        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                                     : "=r"(over) : "r"(place(&empty)), "r"((i - 1) & 1) : "memory");
                    }
                }
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                             ::"r"(place(stage)), "l"(x + i * 64), "r"(256), "r"(place(&full)), "h"(static_cast<short>(3)) : "memory");
            }
        }
        uint32_t over = 0;
        while (!over) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(over) : "r"(place(&full)), "r"(i & 1) : "memory");
        }
        sum += stage[t];
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer(place(&empty), 0)) : "memory");
    }
    y[blockIdx.x * 64 + t] = sum;
    arrive();
    wait();
}

// Broken: the peer may not have begun.
extern "C" __global__ void not_met(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), rank() ^ 1)) : "memory");  // here: not_met
    y[t] = found;
}

// Broken: a block ends while the other still reads its memory.
extern "C" __global__ void left_early(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];
    arrive();
    wait();
    if (rank() == 1) return;
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 1)) : "memory");  // here: left_early
    y[t] = found;
}

// Broken: half of block 1 does not come to the barrier.
extern "C" __global__ void half_comes(const float* x, float* y) {
    const int t = threadIdx.x;
    if (rank() == 0 || t < 32) {
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");  // here: half_comes
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
    }
    y[t] = x[t];
}

// Broken: nobody has written the peer's memory.
extern "C" __global__ void peer_unwritten(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    if (rank() == 0) mine[t] = x[t];
    arrive();
    wait();
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 1)) : "memory");  // here: peer_unwritten
    y[t] = found + mine[0] * 0;
    arrive();
    wait();
}

// Broken: there is no block 2 in a cluster of two.
extern "C" __global__ void no_such_rank(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];
    arrive();
    wait();
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 2)) : "memory");  // here: no_such_rank
    y[t] = found;
    arrive();
    wait();
}

// Broken: waits without having arrived.
extern "C" __global__ void not_arrived(const float* x, float* y) {
    const int t = threadIdx.x;
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");  // here: not_arrived
    y[t] = x[t];
}
