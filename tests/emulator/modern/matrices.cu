// Tensor cores, fed from shared memory. Tiles of halves.
#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__device__ uint32_t place(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void load4(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(row)) : "memory");
}

__device__ void load2_flipped(uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(place(row)) : "memory");
}

// c (32 x 16) = a (32 x k) b (k x 16), one warp for each 16 x 8; cp.async of the next step goes on meanwhile.
extern "C" __global__ void staged_product(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(16) half as[2][32][24], bs[2][16][24];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, m = warp / 2 * 16, n = warp % 2 * 8;
    float d[4] = {};
    const auto fetch = [&](int step) {
        const int row = t / 2 % 32, half8 = t % 2 * 8;
        if (t < 64) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(&as[step % 2][row][half8])),
                         "l"(a + row * k + step * 16 + half8) : "memory");
        } else if (t < 96) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(&bs[step % 2][row % 16][half8])),
                         "l"(b + (step * 16 + row % 16) * 16 + half8) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0);
    for (int step = 0; step < k / 16; step++) {
        if (step + 1 < k / 16) {
            fetch(step + 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        uint32_t ra[4], rb[2];
        load4(ra, &as[step % 2][m + lane % 16][lane / 16 * 8]);
        load2_flipped(rb, &bs[step % 2][lane % 16][n]);
        multiply(d, ra, rb);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) c[(m + lane / 4 + i / 2 * 8) * 16 + n + lane % 4 * 2 + i % 2] = d[i];
}

extern "C" __global__ void wmma_product(const half* a, const half* b, float* c, float* scaled) {
    __shared__ __align__(32) half as[16 * 24];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) as[i / 16 * 24 + i % 16] = a[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    wmma::load_matrix_sync(fa, as, 24);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2;
    wmma::store_matrix_sync(scaled, fc, 16, wmma::mem_col_major);
}

extern "C" __global__ void wmma_integers(const signed char* a, const signed char* b, int* c) {
    wmma::fragment<wmma::matrix_a, 8, 32, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 32, 16, signed char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 8, 32, 16, int> fc;
    wmma::fill_fragment(fc, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 32, wmma::mem_row_major);
}

// y = x' of 16 x 16 halves by movmatrix and stmatrix.
extern "C" __global__ void flipped(const half* x, half* y) {
    __shared__ __align__(16) half tile[16][16];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i / 16][i % 16] = x[i];
    __syncwarp();
    uint32_t r[4];
    load4(r, &tile[lane % 16][lane / 16 * 8]);
    for (int i = 0; i < 4; i++) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[i]));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(place(&tile[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8])),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    __syncwarp();
    for (int i = lane; i < 256; i += 32) y[i] = tile[i / 16][i % 16];
}

// Broken: no barrier between filling the tile and loading it.
extern "C" __global__ void loaded_early(const half* x, float* y) {
    __shared__ __align__(16) half tile[16][16];
    const int t = threadIdx.x, lane = t % 32;
    for (int i = t; i < 256; i += 64) tile[i / 16][i % 16] = x[i];
    uint32_t r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(&tile[lane % 16][lane / 16 * 8])) : "memory");  // here: loaded_early
    y[t] = r[0] + r[1] + r[2] + r[3];
}

// Broken: half of the tile was never written.
extern "C" __global__ void half_filled(const half* x, float* y) {
    __shared__ __align__(16) half tile[16][16];
    const int lane = threadIdx.x;
    for (int i = lane; i < 128; i += 32) tile[i / 16][i % 16] = x[i];
    __syncthreads();
    uint32_t r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(&tile[lane % 16][lane / 16 * 8])) : "memory");  // here: half_filled
    y[lane] = r[0] + r[1] + r[2] + r[3];
}

// Broken: rows of 18 halves begin at addresses that are no multiples of 16 bytes.
extern "C" __global__ void crooked_rows(const half* x, float* y) {
    __shared__ __align__(16) half tile[16][18];
    const int lane = threadIdx.x;
    for (int i = lane; i < 288; i += 32) tile[i / 18][i % 18] = x[i % 256];
    __syncthreads();
    uint32_t r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(&tile[lane % 16][lane / 16 * 8])) : "memory");  // here: crooked_rows
    y[lane] = r[0] + r[1] + r[2] + r[3];
}

// Broken: the tile ends after 16 rows, and the second load begins at row 8.
extern "C" __global__ void beyond_the_tile(const half* x, float* y) {
    __shared__ __align__(16) half tile[16][16];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i / 16][i % 16] = x[i];
    __syncthreads();
    uint32_t r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(&tile[8 + lane % 16][lane / 16 * 8])) : "memory");  // here: beyond_the_tile
    y[lane] = r[0] + r[1] + r[2] + r[3];
}

// Broken: the next tile overwrites what another warp still loads.
extern "C" __global__ void overwritten_early(const half* x, float* y) {
    __shared__ __align__(16) half tile[16][16];
    const int t = threadIdx.x, lane = t % 32;
    float sum = 0;
    for (int step = 0; step < 2; step++) {
        for (int i = t; i < 256; i += 64) tile[i / 16][i % 16] = x[step * 256 + i];  // here: overwritten_early
        __syncthreads();
        uint32_t r[4];
        load4(r, &tile[lane % 16][lane / 16 * 8]);
        sum += r[0] + r[1] + r[2] + r[3];
    }
    y[t] = sum;
}

// Broken: the matrix has 16 columns, the last row of a matrix of 24 lies beyond it.
extern "C" __global__ void wide_stride(const half* x, float* y) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, x, 24);  // here: wide_stride
    wmma::fill_fragment(fb, __float2half(1.0f));
    wmma::fill_fragment(fc, 0.0f);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(y, fc, 16, wmma::mem_row_major);
}

// Broken: only half of the warp comes to the product.
extern "C" __global__ void half_a_warp(const half* x, float* y) {
    const int lane = threadIdx.x;
    float d[4] = {};
    const uint32_t a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    if (lane < 16) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));  // here: half_a_warp
    } else {
        __syncwarp(0xffff0000u);
    }
    y[lane] = d[0] + __half2float(x[lane]);
    __syncthreads();
}
