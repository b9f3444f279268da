// Copies by tensor maps. 128 threads a block; maps come from `encode`.
#include <cstdint>
#include <cuda.h>

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void begin(uint64_t& bar, uint32_t bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&bar)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(&bar)), "r"(bytes) : "memory");
}
__device__ void wait(uint64_t& bar) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra DONE; bra AGAIN; DONE: }" ::"r"(
                     place(&bar)) : "memory");
}
__device__ void load(void* to, const CUtensorMap& map, int x, int y, uint64_t& bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(place(to)),
                 "l"(&map), "r"(x), "r"(y), "r"(place(&bar)) : "memory");
}

// Tiles of 16 x 32 floats, 8 columns to the right; what lies outside the tensor is read as zero, and left alone.
extern "C" __global__ void moved(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x, x = blockIdx.x * 32 - 8, y = blockIdx.y * 16;
    if (t == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
        begin(bar, sizeof tile);
        load(tile, in, x, y, bar);
    }
    __syncthreads();
    wait(bar);
    for (int i = t; i < 512; i += 128) tile[i / 32][i % 32] += 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(x + 8), "r"(y),
                     "r"(place(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// As it lies in shared memory, byte for byte: 64 rows of 32 words at most.
extern "C" __global__ void dumped(const __grid_constant__ CUtensorMap in, uint32_t* y, int bytes) {
    extern __shared__ __align__(1024) uint32_t words[];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, bytes);
        load(words, in, 0, 0, bar);
    }
    __syncthreads();
    wait(bar);
    for (int i = t; i < bytes / 4; i += 128) y[i] = words[i];
}

extern "C" __global__ void cube(const __grid_constant__ CUtensorMap in, float* y, int a, int b, int c) {
    __shared__ __align__(128) float tile[2 * 4 * 8];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, sizeof tile);
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                         place(tile)), "l"(&in), "r"(a), "r"(b), "r"(c), "r"(place(&bar)) : "memory");
    }
    __syncthreads();
    wait(bar);
    if (t < 64) y[t] = tile[t];
}

// Boxes of all blocks are added up in one place of a tensor.
extern "C" __global__ void added_up(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    if (threadIdx.x == 0) {
        begin(bar, sizeof tile);
        load(tile, in, blockIdx.x * 32, blockIdx.y * 16, bar);
        wait(bar);
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(4), "r"(2),
                     "r"(place(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A column of pixels by im2col, as it lies in shared memory. `at` of the tensor, the channel first; `off` of the filter.
extern "C" __global__ void column3(const __grid_constant__ CUtensorMap in, float* y, int count, int c, int w, int n, int off) {
    extern __shared__ __align__(1024) float pixels[];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, count * 4);
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5], {%6};"
                     ::"r"(place(pixels)), "l"(&in), "r"(c), "r"(w), "r"(n), "r"(place(&bar)), "h"(static_cast<uint16_t>(off)) : "memory");
    }
    __syncthreads();
    wait(bar);
    for (int i = t; i < count; i += 128) y[i] = pixels[i];
}

extern "C" __global__ void column4(const __grid_constant__ CUtensorMap in, float* y, int count, int c, int w, int h, int n, int off_w,
                                   int off_h) {
    extern __shared__ __align__(1024) float pixels[];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, count * 4);
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                     ::"r"(place(pixels)), "l"(&in), "r"(c), "r"(w), "r"(h), "r"(n), "r"(place(&bar)),
                     "h"(static_cast<uint16_t>(off_w)), "h"(static_cast<uint16_t>(off_h)) : "memory");  // here: column4
    }
    __syncthreads();
    wait(bar);
    for (int i = t; i < count; i += 128) y[i] = pixels[i];
}

extern "C" __global__ void column5(const __grid_constant__ CUtensorMap in, float* y, int count, int c, int w, int h, int d, int n,
                                   int off_w, int off_h, int off_d) {
    extern __shared__ __align__(1024) float pixels[];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, count * 4);
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10}, %11;"
                     ::"r"(place(pixels)), "l"(&in), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "r"(place(&bar)),
                     "h"(static_cast<uint16_t>(off_w)), "h"(static_cast<uint16_t>(off_h)), "h"(static_cast<uint16_t>(off_d)),
                     "h"(static_cast<uint16_t>(1)) : "memory");
    }
    __syncthreads();
    wait(bar);
    for (int i = t; i < count; i += 128) y[i] = pixels[i];
}

// The pixels 1, 2, 3 ... are stored, or added, where a load by im2col without offsets would take them from.
extern "C" __global__ void put_back(const __grid_constant__ CUtensorMap out, int count, int w, int h, int n) {
    extern __shared__ __align__(1024) float pixels[];
    for (int i = threadIdx.x; i < count; i += 128) pixels[i] = i + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                     ::"l"(&out), "r"(0), "r"(w), "r"(h), "r"(n), "r"(place(pixels)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                     ::"l"(&out), "r"(4), "r"(w), "r"(h), "r"(n), "r"(place(pixels)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// Broken: only as many bytes are expected as lie inside the tensor; a box counts whole.
extern "C" __global__ void box_counts_whole(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 1024);
        load(tile, in, 0, 8, bar);
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra DONE; bra AGAIN; DONE: }"
                 ::"r"(place(&bar)) : "memory");  // here: box_counts_whole
    y[t] = tile[0][t % 32];
}

// Broken: 16 bytes into the tile, where a map asks for multiples of 128.
extern "C" __global__ void crooked(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[17][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 2048);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(place(&tile[0][4])), "l"(&in), "r"(0), "r"(0), "r"(place(&bar)) : "memory");  // here: crooked
    }
    __syncthreads();
    wait(bar);
    y[t] = tile[1][t % 32];
}

// Broken: the tile has 8 rows, the box 16.
extern "C" __global__ void small_tile(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[8][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 2048);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(place(tile)), "l"(&in), "r"(0), "r"(0), "r"(place(&bar)) : "memory");  // here: small_tile
    }
    __syncthreads();
    wait(bar);
    y[t] = tile[1][t % 32];
}

// Broken: the store begins before the tensor, which only a load may.
extern "C" __global__ void stored_before(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[16][32];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 128) tile[i / 32][i % 32] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&in), "r"(-4), "r"(0), "r"(place(tile)) : "memory");  // here: stored_before
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    y[t] = 1;
}

// Broken: two floats are half of a unit of 16 bytes, and the first dimension moves by whole ones.
extern "C" __global__ void between_units(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 2048);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(place(tile)), "l"(&in), "r"(2), "r"(0), "r"(place(&bar)) : "memory");  // here: between_units
    }
    __syncthreads();
    wait(bar);
    y[t] = tile[0][t % 32];
}

// Broken: these bytes are no map.
extern "C" __global__ void no_map(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 2048);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(place(tile)), "l"(y), "r"(0), "r"(0), "r"(place(&bar)) : "memory");  // here: no_map
    }
    y[t] = 0;
}

// Broken: by im2col, of a map that was made for boxes.
extern "C" __global__ void other_mode(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ __align__(128) float tile[16][32];
    __shared__ __align__(8) uint64_t bar;
    const int t = threadIdx.x;
    if (t == 0) {
        begin(bar, 2048);
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %2}], [%3], {%4, %4};"
                     ::"r"(place(tile)), "l"(&in), "r"(0), "r"(place(&bar)), "h"(static_cast<uint16_t>(0)) : "memory");  // here: other_mode
    }
    y[t] = 0;
}
