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
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer(place(&empty), 0)) : "memory");
    }
    y[blockIdx.x * 64 + t] = sum;
    arrive();
    wait();
}

// Values go around the cluster, each block to the next one's memory; what was there has been read before.
extern "C" __global__ void handed_on(const float* x, float* y, int rounds) {
    __shared__ float given[64];
    __shared__ __align__(8) uint64_t free_now;
    const int t = threadIdx.x;
    cg::cluster_group cluster = cg::this_cluster();
    const uint32_t size = cluster.num_blocks(), next = (rank() + 1) % size, before = (rank() + size - 1) % size;
    float* there = cluster.map_shared_rank(given, next);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(place(&free_now)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    float mine = x[blockIdx.x * 64 + t];
    cluster.sync();
    for (int i = 0; i < rounds; i++) {
        there[63 - t] = mine;
        cluster.sync();
        mine = given[t];
        // The block before may write again.
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer(place(&free_now), before)) : "memory");
        uint32_t over = 0;
        while (!over) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(over) : "r"(place(&free_now)), "r"(i & 1) : "memory");
        }
    }
    y[blockIdx.x * 64 + t] = mine;
    // Nothing is told any more: it is enough that all have come.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    wait();
}

// Block 0 reads what block 1 wrote, once it has seen the flag; each half of a word has another writer.
extern "C" __global__ void by_flag(const float* x, float* y) {
    __shared__ float mine[64];
    __shared__ uint32_t flag;
    __shared__ unsigned short halves[2];
    const int t = threadIdx.x;
    if (t == 0) flag = 0;
    arrive();
    wait();
    if (t == 0) {
        asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(peer(place(&halves[rank()]), 0)), "h"(static_cast<short>(rank() + 1)) : "memory");
    }
    if (rank() == 1) {
        mine[t] = x[t];
        __syncthreads();
        if (t == 0) {
            asm volatile("fence.acq_rel.cluster;" ::: "memory");
            asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], 1;" ::"r"(peer(place(&flag), 0)) : "memory");
        }
    } else {
        uint32_t seen = 0;
        while (t == 0 && seen == 0) {
            asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(place(&flag)) : "memory");
        }
        __syncthreads();
        float found;
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 1)) : "memory");
        y[t] = found;
    }
    arrive();
    wait();
    if (rank() == 0) y[64 + t] = halves[t % 2];
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

// Broken: only the threads of each block have met when one reads what the other wrote.
extern "C" __global__ void met_at_home(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = 0;
    arrive();
    wait();
    if (rank() == 1) mine[t] = x[t];  // there: met_at_home
    __syncthreads();
    if (rank() == 0) {
        float found;
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 1)) : "memory");  // here: met_at_home
        y[t] = found;
    }
    arrive();
    wait();
}

// Broken: the barrier was arrived at without release.
extern "C" __global__ void relaxed_arrival(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];  // there: relaxed_arrival
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    wait();
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), rank() ^ 1)) : "memory");  // here: relaxed_arrival
    if (rank() == 0) y[t] = found;
    arrive();
    wait();
}

// Broken: writes again what the other block may still read.
extern "C" __global__ void written_again(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];
    arrive();
    wait();
    if (rank() == 1) {
        float found;
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 0)) : "memory");  // there: written_again
        y[t] = found;
    }
    if (rank() == 0) mine[t] = 0;  // here: written_again
    arrive();
    wait();
}

// Broken: both blocks put their part into one place of block 0.
extern "C" __global__ void both_write(const float* x, float* y) {
    __shared__ float sum[64];
    const int t = threadIdx.x;
    arrive();
    wait();
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(peer(place(&sum[t]), 0)), "f"(x[t]) : "memory");  // here: both_write
    arrive();
    wait();
    if (rank() == 0) y[t] = sum[t];
}

// Broken: nothing keeps block 0 until the other has read its memory.
extern "C" __global__ void may_be_gone(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    mine[t] = x[t];
    arrive();
    wait();
    if (rank() == 0) return;
    float found;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(peer(place(&mine[t]), 0)) : "memory");  // here: may_be_gone
    y[t] = found;
}

// Broken: a pointer that was mapped while the block was there outlives it.
extern "C" __global__ void kept_pointer(const float* x, float* y) {
    __shared__ float mine[64];
    const int t = threadIdx.x;
    cg::cluster_group cluster = cg::this_cluster();
    mine[t] = x[t];
    const float* there = cluster.map_shared_rank(mine, 1);
    cluster.sync();
    if (cluster.block_rank() == 1) return;
    y[t] = there[t];  // here: kept_pointer
}
