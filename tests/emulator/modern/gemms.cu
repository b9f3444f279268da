// Matrix products and attention in the styles of fast kernels for sm_80 and sm_90a; numbers are small, so that sums are exact
// whatever their order, but for attention.
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t& bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(&bar)), "r"(count) : "memory");
}
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void expect(uint64_t& bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(&bar)), "r"(bytes) : "memory");
}
// Of a block of the cluster.
__device__ void arrive(uint64_t& bar, uint32_t rank) {
    asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r]; }" ::"r"(
                     place(&bar)), "r"(rank) : "memory");
}
__device__ void wait(uint64_t& bar, uint32_t parity) {
    asm volatile(
        "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @p bra DONE; bra AGAIN; DONE: }" ::"r"(
            place(&bar)), "r"(parity) : "memory");
}
__device__ void load(void* to, const CUtensorMap& map, int x, int y, uint64_t& bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(place(to)),
                 "l"(&map), "r"(x), "r"(y), "r"(place(&bar)) : "memory");
}
__device__ void load_to_all(void* to, const CUtensorMap& map, int x, int y, uint64_t& bar, uint16_t ranks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
            place(to)), "l"(&map), "r"(x), "r"(y), "r"(place(&bar)), "h"(ranks) : "memory");
}
__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ uint32_t rank_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Prior = 0> __device__ void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Prior) : "memory"); }
template <int N> __device__ void hold(float (&d)[N]) {
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ uint64_t swizzled(const void* tile, int bytes = 0) {
    return uint64_t{(place(tile) + bytes) >> 4 & 0x3fff} | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}
__device__ uint64_t pieces(const void* tile, int rows) {
    return uint64_t{place(tile) >> 4 & 0x3fff} | uint64_t(rows) << 16 | uint64_t{8} << 32;
}

#define SUMS "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define SUMS_OF(c)                                                                                                  \
    c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]),         \
        c(d[8]), c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15])

// d (64 x 32) += a (64 x 16) b (32 x 16)^T and the like.
__device__ void multiply(float (&d)[16], uint64_t a, uint64_t b, int add = 1) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " SUMS
                 ", %16, %17, p, 1, 1, 0, 0; }" : SUMS_OF("+f") : "l"(a), "l"(b), "r"(add));
}
// b lies with its 32 columns beside each other.
__device__ void multiply_flipped(float (&d)[16], const uint32_t* a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " SUMS ", {%16,%17,%18,%19}, %20, 1, 1, 1, 1;"
                 : SUMS_OF("+f") : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void multiply_int8(int (&d)[16], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 " SUMS ", %16, %17, 1;" : SUMS_OF("+r") : "l"(a), "l"(b));
}
__device__ void multiply_fp8(float (&d)[16], uint64_t a, uint64_t b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 " SUMS
                 ", %16, %17, p, 1, 1; }" : SUMS_OF("+f") : "l"(a), "l"(b));
}
template <class T> __device__ void write(const T (&d)[16], T* c, int wide) {
    const int t = threadIdx.x % 128;
    for (int i = 0; i < 16; i++) c[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * wide + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}

// Int8, tiles by cp.async: c (64 x 32) = a (64 x k) b (32 x k)^T, in steps of 32.
extern "C" __global__ void int8_product(const int8_t* a, const int8_t* b, int* c, int k) {
    __shared__ __align__(128) int8_t as[2][64][16], bs[2][32][16];
    const int t = threadIdx.x;
    int d[16] = {};
    for (int step = 0; step < k; step += 32) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(as[t / 64][t % 64])), "l"(a + t % 64 * k + step + t / 64 * 16) : "memory");
        if (t < 64) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(bs[t / 32][t % 32])), "l"(b + t % 32 * k + step + t / 32 * 16) : "memory");
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        proxy_fence();
        __syncthreads();
        fence();
        multiply_int8(d, pieces(as, 64), pieces(bs, 32));
        commit();
        wait_products();
        for (int i = 0; i < 16; i++) asm volatile("" : "+r"(d[i])::"memory");
        __syncthreads();
    }
    write(d, c, 32);
}

// Fp8, by tensor maps with rows of 128 bytes; each product's sums are added up in float, as its own keep 14 bits.
extern "C" __global__ void fp8_product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char *as = memory, *bs = memory + 64 * 128;
    __shared__ __align__(8) uint64_t full;
    if (threadIdx.x == 0) {
        init(full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum[16] = {};
    for (int i = 0; i < k / 128; i++) {
        if (threadIdx.x == 0) {
            expect(full, 96 * 128);
            load(as, a, i * 128, 0, full);
            load(bs, b, i * 128, 0, full);
        }
        wait(full, i & 1);
        for (int part = 0; part < 4; part++) {
            float d[16];
            fence();
            multiply_fp8(d, swizzled(as, 32 * part), swizzled(bs, 32 * part));
            commit();
            wait_products();
            hold(d);
            for (int n = 0; n < 16; n++) sum[n] += d[n];
        }
        __syncthreads();
    }
    write(sum, c, 32);
}

// Persistent blocks in clusters of two: tiles of 64 x 32, b for both by multicast, a stage is free when both blocks say so.
extern "C" __global__ void __launch_bounds__(256, 1) __cluster_dims__(2, 1, 1)
    clusters(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    half(*as)[64][64] = reinterpret_cast<half(*)[64][64]>(memory);
    half(*bs)[32][64] = reinterpret_cast<half(*)[32][64]>(memory + 2 * sizeof *as);
    __shared__ __align__(8) uint64_t full[2], empty[2];
    const int t = threadIdx.x, steps = k / 64, pairs = m / 128, tiles = pairs * (n / 32);
    const uint32_t rank = rank_in_cluster();
    if (t == 0) {
        for (int s = 0; s < 2; s++) init(full[s], 1), init(empty[s], 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
    int done = 0;
    for (int tile = blockIdx.x / 2; tile < tiles; tile += gridDim.x / 2) {
        const int row = (tile % pairs * 2 + rank) * 64, column = tile / pairs * 32;
        if (t >= 128) {
            for (int i = 0; i < steps && t == 128; i++, done++) {
                const int s = done % 2;
                wait(empty[s], (done / 2 & 1) ^ 1);
                expect(full[s], sizeof *as + sizeof *bs);
                load(as[s], a, i * 64, row, full[s]);
                load_to_all(bs[s][16 * rank], b, i * 64, column + 16 * rank, full[s], 3);
            }
            continue;
        }
        float d[16] = {};
        for (int i = 0; i < steps; i++, done++) {
            const int s = done % 2;
            wait(full[s], done / 2 & 1);
            fence();
            for (int part = 0; part < 4; part++) multiply(d, swizzled(as[s], 32 * part), swizzled(bs[s], 32 * part), i + part);
            commit();
            wait_products();
            hold(d);
            if (t < 2) arrive(empty[s], t);
        }
        write(d, c + row * n + column, n);
    }
    cluster_sync();
}

// Split along k: every block adds its part, the last one to come writes; mma.sync of bfloat16, one warp for 16 x 8.
__device__ void multiply(float (&d)[4], const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void part_of_tile(float (&d)[4], const __nv_bfloat16* a, const __nv_bfloat16* b, int k, int from, int to) {
    const int lane = threadIdx.x % 32;
    for (int step = from; step < to; step += 16) {
        uint32_t x[4], y[2];
        for (int i = 0; i < 4; i++) x[i] = *reinterpret_cast<const uint32_t*>(a + (lane / 4 + i % 2 * 8) * k + step + lane % 4 * 2 + i / 2 * 8);
        for (int i = 0; i < 2; i++) y[i] = *reinterpret_cast<const uint32_t*>(b + lane / 4 * k + step + lane % 4 * 2 + i * 8);
        multiply(d, x, y);
    }
}
extern "C" __global__ void split_k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, float* parts, int* come, int k) {
    const int lane = threadIdx.x, share = k / gridDim.x;
    float d[4] = {};
    part_of_tile(d, a, b, k, blockIdx.x * share, (blockIdx.x + 1) * share);
    for (int i = 0; i < 4; i++) parts[blockIdx.x * 128 + lane * 4 + i] = d[i];
    __threadfence();
    __syncwarp();
    int last = 0;
    if (lane == 0) last = atomicAdd(come, 1) == gridDim.x - 1;
    last = __shfl_sync(0xffffffffu, last, 0);
    if (!last) return;
    __threadfence();
    for (int i = 0; i < 4; i++) {
        float sum = 0;
        for (int part = 0; part < gridDim.x; part++) sum += parts[part * 128 + lane * 4 + i];
        c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum;
    }
}

// Stream-k: the steps of all tiles are dealt out evenly; who ends in the middle of a tile hands its sums to who begins it.
extern "C" __global__ void stream_k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, float* parts, int* flags, int tiles, int k) {
    const int lane = threadIdx.x, steps = k / 16, all = tiles * steps;
    int at = all * blockIdx.x / gridDim.x;
    const int end = all * (blockIdx.x + 1) / gridDim.x;
    while (at < end) {
        const int tile = at / steps, from = at % steps, to = min(steps, from + end - at);
        float d[4] = {};
        part_of_tile(d, a + tile * 16 * k, b, k, from * 16, to * 16);
        at += to - from;
        if (from > 0) {  // not its beginning
            for (int i = 0; i < 4; i++) parts[blockIdx.x * 128 + lane * 4 + i] = d[i];
            __threadfence();
            __syncwarp();
            if (lane == 0) atomicExch(flags + blockIdx.x, 1);
            continue;
        }
        for (int have = to, other = blockIdx.x + 1; have < steps; other++) {
            if (lane == 0) while (atomicAdd(flags + other, 0) == 0) {}
            __syncwarp();
            __threadfence();
            for (int i = 0; i < 4; i++) d[i] += __ldcg(parts + other * 128 + lane * 4 + i);
            have = min(steps, all * (other + 1) / static_cast<int>(gridDim.x) - tile * steps);
        }
        for (int i = 0; i < 4; i++) c[tile * 128 + (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
    }
}

// Attention forward of one head, 64 queries of 64: scores by wgmma out of shared memory, their powers from registers times
// the values, which lie with k going down; keys come in tiles of 32 by tensor maps, two stages.
extern "C" __global__ void __launch_bounds__(128, 1)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, float* out, int keys) {
    extern __shared__ __align__(1024) unsigned char memory[];
    half(*qs)[64] = reinterpret_cast<half(*)[64]>(memory);
    half(*ks)[32][64] = reinterpret_cast<half(*)[32][64]>(memory + 8192);
    half(*vs)[32][64] = reinterpret_cast<half(*)[32][64]>(memory + 16384);
    __shared__ __align__(8) uint64_t full[2], whole;
    const int t = threadIdx.x, steps = keys / 32;
    const auto fetch = [&](int i) {
        expect(full[i % 2], 8192);
        load(ks[i % 2], k, 0, i * 32, full[i % 2]);
        load(vs[i % 2], v, 0, i * 32, full[i % 2]);
    };
    if (t == 0) {
        init(full[0], 1), init(full[1], 1), init(whole, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        expect(whole, 8192);
        load(qs, q, 0, 0, whole);
        fetch(0);
    }
    __syncthreads();
    wait(whole, 0);
    float sums[2][16] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (int i = 0; i < steps; i++) {
        if (t == 0 && i + 1 < steps) fetch(i + 1);
        wait(full[i % 2], i / 2 & 1);
        float s[16] = {};
        fence();
        for (int part = 0; part < 4; part++) multiply(s, swizzled(qs, 32 * part), swizzled(ks[i % 2], 32 * part), part);
        commit();
        wait_products();
        hold(s);
        uint32_t p[8];
        for (int row = 0; row < 2; row++) {
            float highest = most[row];
            for (int n = 0; n < 16; n++) if (n / 2 % 2 == row) highest = fmaxf(highest, s[n] * 0.125f);
            for (int other = 1; other < 4; other *= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, other));
            const float scale = __expf(most[row] - highest);
            most[row] = highest;
            total[row] *= scale;
            for (int n = 0; n < 16; n++) {
                if (n / 2 % 2 != row) continue;
                s[n] = __expf(s[n] * 0.125f - highest);
                total[row] += s[n];
                sums[0][n] *= scale, sums[1][n] *= scale;
            }
        }
        for (int n = 0; n < 8; n++) {
            const half2 pair = __floats2half2_rn(s[2 * n], s[2 * n + 1]);
            p[n] = *reinterpret_cast<const uint32_t*>(&pair);
        }
        for (int n = 0; n < 8; n++) asm volatile("" : "+r"(p[n])::"memory");
        hold(sums[0]);
        hold(sums[1]);
        fence();
        for (int part = 0; part < 2; part++) {
            for (int side = 0; side < 2; side++) multiply_flipped(sums[side], p + 4 * part, swizzled(vs[i % 2][16 * part], 64 * side));
        }
        commit();
        wait_products();
        hold(sums[0]);
        hold(sums[1]);
        __syncthreads();
    }
    for (int row = 0; row < 2; row++) {
        for (int other = 1; other < 4; other *= 2) total[row] += __shfl_xor_sync(0xffffffffu, total[row], other);
        for (int n = 0; n < 16; n++) if (n / 2 % 2 == row) sums[0][n] /= total[row], sums[1][n] /= total[row];
    }
    write(sums[0], out, 64);
    write(sums[1], out + 32, 64);
}
