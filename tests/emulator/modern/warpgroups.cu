// Products of a warpgroup (wgmma), fed by threads and by tensor maps. Tiles of halves; sm_90a.
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t& bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(&bar)), "r"(count) : "memory");
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
__device__ void load(void* to, const CUtensorMap& map, int x, int y, uint64_t& bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(place(to)),
                 "l"(&map), "r"(x), "r"(y), "r"(place(&bar)) : "memory");  // here: load
}
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Prior = 0> __device__ void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Prior) : "memory"); }
// The compiler does not know that sums change until then.
__device__ void hold(float (&d)[16]) {
    for (int i = 0; i < 16; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Rows of 64 halves, swizzled by 128 bytes, from 16 columns on; and rows of 8 halves beside each other.
__device__ uint64_t swizzled(const void* tile, int columns = 0) {
    return uint64_t{(place(tile) + 2 * columns) >> 4 & 0x3fff} | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}
__device__ uint64_t pieces(const void* tile, int rows) {
    return uint64_t{place(tile) >> 4 & 0x3fff} | uint64_t(rows) << 16 | uint64_t{8} << 32;
}

#define SUMS "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define IN_OUT                                                                                                          \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),          \
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])

// d (64 x 32) += a (64 x 16) b (32 x 16)^T
__device__ void multiply(float (&d)[16], uint64_t a, uint64_t b, int add = 1) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " SUMS
                 ", %16, %17, p, 1, 1, 0, 0; }" : IN_OUT : "l"(a), "l"(b), "r"(add));  // here: multiply
}
__device__ void multiply(float (&d)[16], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " SUMS ", {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
                 : IN_OUT : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void write(const float (&d)[16], float* c) {
    const int t = threadIdx.x % 128;
    for (int i = 0; i < 16; i++) c[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 32 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}

__device__ void read(float (&d)[16], const float* c) {
    const int t = threadIdx.x % 128;
    for (int i = 0; i < 16; i++) d[i] = c[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * 32 + i / 4 * 8 + t % 4 * 2 + i % 2];
}

// Tiles of 16 columns by threads, in rows of 8 halves.
struct Tiles {
    half a[2][64][8], b[2][32][8];
};
__device__ void fill(Tiles& to, const half* a, const half* b, int k) {
    for (int i = threadIdx.x; i < 1024; i += 128) to.a[i / 8 % 2][i / 16][i % 8] = a[i / 16 * k + i % 16];
    for (int i = threadIdx.x; i < 512; i += 128) to.b[i / 8 % 2][i / 16][i % 8] = b[i / 16 * k + i % 16];
}

extern "C" __global__ void by_threads(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    for (int step = 0; step < k / 16; step++) {
        fill(tiles, a + step * 16, b + step * 16, k);
        proxy_fence();
        __syncthreads();
        fence();
        multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
        commit();
        wait_products();
        hold(d);
        __syncthreads();
    }
    write(d, c);
}

// One warp fetches by tensor maps, a warpgroup multiplies: two products are under way, a stage is given back by one thread
// of the warpgroup for all of it. 256 threads.
extern "C" __global__ void __launch_bounds__(256, 1) pipelined(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    half(*as)[64][64] = reinterpret_cast<half(*)[64][64]>(memory);
    half(*bs)[32][64] = reinterpret_cast<half(*)[32][64]>(memory + 3 * sizeof *as);
    __shared__ __align__(8) uint64_t full[3], empty[3];
    const int t = threadIdx.x, steps = k / 64;
    if (t == 0) {
        for (int s = 0; s < 3; s++) init(full[s], 1), init(empty[s], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        for (int i = 0; i < steps && t == 128; i++) {
            const int s = i % 3;
            wait(empty[s], (i / 3 & 1) ^ 1);
            expect(full[s], sizeof *as + sizeof *bs);
            load(as[s], a, i * 64, 0, full[s]);
            load(bs[s], b, i * 64, 0, full[s]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[16] = {};
    for (int i = 0; i < steps; i++) {
        const int s = i % 3;
        wait(full[s], i / 3 & 1);
        fence();
        for (int part = 0; part < 4; part++) multiply(d, swizzled(as[s], 16 * part), swizzled(bs[s], 16 * part), i + part);
        commit();
        wait_products<1>();
        if (i > 0 && t == 0) arrive(empty[(i - 1) % 3]);
    }
    wait_products();
    hold(d);
    write(d, c);
}

// a from registers, doubled between two products, as attention rescales its sums.
extern "C" __global__ void from_registers(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    const int t = threadIdx.x;
    float d[16] = {};
    for (int step = 0; step < k / 16; step++) {
        fill(tiles, a + step * 16, b + step * 16, k);
        proxy_fence();
        __syncthreads();
        uint32_t x[4];
        for (int i = 0; i < 4; i++) {
            const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8, column = step * 16 + t % 4 * 2 + i / 2 * 8;
            const half2 pair = *reinterpret_cast<const half2*>(a + row * k + column);
            x[i] = uint32_t{__half_as_ushort(pair.x)} | uint32_t{__half_as_ushort(pair.y)} << 16;
        }
        for (int i = 0; i < 16; i++) d[i] *= 2;
        hold(d);
        for (int i = 0; i < 4; i++) asm volatile("" : "+r"(x[i])::"memory");
        fence();
        multiply(d, x, pieces(tiles.b, 32));
        commit();
        wait_products();
        hold(d);
        __syncthreads();
    }
    write(d, c);
}

// Broken: the sums are read while the product is under way.
extern "C" __global__ void read_early(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += d[i];  // here: read_early
    c[t] = sum;
    wait_products();
}

// Broken: one group of two is waited for.
extern "C" __global__ void waits_for_one(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products<1>();
    hold(d);
    c[threadIdx.x] = d[0] + 1;  // here: waits_for_one
    wait_products();
}

// Broken: no fence before the first product.
extern "C" __global__ void no_fence(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16];
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    read(d, c);
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: sums are scaled after the fence.
extern "C" __global__ void scaled_late(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16];
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    read(d, c);
    for (int i = 0; i < 16; i++) d[i] *= 2;
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: the next tile is written while the product may still read the last one.
extern "C" __global__ void refilled(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    __syncthreads();
    tiles.b[0][threadIdx.x / 8 % 32][threadIdx.x % 8] = b[threadIdx.x];  // here: refilled
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: threads write the tiles, and no fence tells the tensor cores.
extern "C" __global__ void unseen(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: nothing stands between the threads that write and the product.
extern "C" __global__ void no_barrier(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: three of four warps come.
extern "C" __global__ void three_warps(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    if (threadIdx.x < 96) {
        fence();
        multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
        commit();
        wait_products();
        hold(d);
    }
    write(d, c);
}

// Broken: half of b has been written.
extern "C" __global__ void half_written(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    for (int i = threadIdx.x; i < 1024; i += 128) tiles.a[i / 8 % 2][i / 16][i % 8] = a[i / 16 * k + i % 16];
    for (int i = threadIdx.x; i < 256; i += 128) tiles.b[i / 8 % 2][i / 16][i % 8] = b[i / 16 * k + i % 16];
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: the stride of 16 rows goes beyond the tile.
extern "C" __global__ void too_far(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 96));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: a register of a is written while the product reads it.
extern "C" __global__ void factor_changed(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    uint32_t x[4] = {threadIdx.x, 0, 0, 0};
    fence();
    for (int i = 0; i < k; i++) {
        multiply(d, x, pieces(tiles.b, 32));
        commit();
        asm volatile("add.u32 %0, %0, 1;" : "+r"(x[0]));  // here: factor_changed
    }
    wait_products();
    hold(d);
    write(d, c);
}

// Broken: nobody waits, and the block ends.
extern "C" __global__ void left_behind(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(128) Tiles tiles;
    float d[16] = {};
    fill(tiles, a, b, k);
    proxy_fence();
    __syncthreads();
    fence();
    multiply(d, pieces(tiles.a, 64), pieces(tiles.b, 32));
    commit();
    c[threadIdx.x] = 1;
}

// Broken: the tensor map swizzles by 128 bytes, the descriptor says that nothing is swizzled. And: a stage is given back
// before the product on it has been waited for, and the next copy comes.
extern "C" __global__ void other_swizzle(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    half *as = reinterpret_cast<half*>(memory), *bs = as + 64 * 64;
    __shared__ __align__(8) uint64_t full;
    if (threadIdx.x == 0) {
        init(full, 1);
        proxy_fence();
        expect(full, 12288);
        load(as, a, 0, 0, full);
        load(bs, b, 0, 0, full);
    }
    __syncthreads();
    wait(full, 0);
    float d[16] = {};
    fence();
    multiply(d, swizzled(as), swizzled(bs) & ~(uint64_t{3} << 62));
    commit();
    wait_products();
    hold(d);
    write(d, c);
}
extern "C" __global__ void given_back_early(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    half *as = reinterpret_cast<half*>(memory), *bs = as + 64 * 64;
    __shared__ __align__(8) uint64_t full;
    if (threadIdx.x == 0) {
        init(full, 1);
        proxy_fence();
    }
    __syncthreads();
    float d[16] = {};
    for (int i = 0; i < k / 64; i++) {
        if (threadIdx.x == 0) {
            expect(full, 12288);
            load(as, a, i * 64, 0, full);
            load(bs, b, i * 64, 0, full);
        }
        wait(full, i & 1);
        fence();
        multiply(d, swizzled(as), swizzled(bs));
        commit();
        __syncthreads();
    }
    wait_products();
    hold(d);
    write(d, c);
}
