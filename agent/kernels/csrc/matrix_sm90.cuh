// Warpgroup matrix products from shared memory (wgmma), sm_90a only. Not for the emulator.
//
// Operands are rows of fp16, 16 columns per instruction, named by a matrix descriptor: tile_descriptor for swizzled
// rows of 64, pieces_descriptor for rows of 8.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "bulk_sm90.cuh"

namespace kernelwright::matrix {

using namespace kernelwright::sm90;

constexpr int kRowBytes = 128;   // 64 fp16 of a row: the width of the swizzle
constexpr int kAtomBytes = 1024; // 8 rows of kRowBytes

// Byte offset of a 16-byte piece in a tile with rows of 64 fp16, in the 128-byte swizzle that wgmma reads. The pieces
// of a row are permuted by the row number, so that a column of pieces covers all banks.
__host__ __device__ inline int swizzled(int row, int piece) { return row * kRowBytes + (piece ^ (row % 8)) * 16; }

// Descriptor of a swizzled tile at `address`: a multiple of 1024 bytes, plus 32 for each 16 columns already consumed.
__device__ __forceinline__ uint64_t tile_descriptor(const void* address) {
    const uint64_t begin = (shared_address(address) & 0x3ffff) >> 4;
    const uint64_t atoms = kAtomBytes >> 4;
    return begin | uint64_t{1} << 16 | atoms << 32 | uint64_t{1} << 62;
}

// Descriptor of rows of 8 fp16 (16 bytes). 8 rows are contiguous, the next 8 rows follow after `rows_step` pieces of 16
// bytes, and the other 8 of the 16 columns after `depth_step` pieces. `begin` is a multiple of 16 bytes.
__device__ __forceinline__ uint64_t pieces_descriptor(const void* begin, uint32_t depth_step, uint32_t rows_step) {
    return uint64_t{(shared_address(begin) & 0x3ffff) >> 4} | uint64_t{depth_step} << 16 | uint64_t{rows_step} << 32;
}

__device__ __forceinline__ void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Waits for all products issued so far. The asm makes the compiler treat d as written here, not earlier.
template <int N>
__device__ __forceinline__ void matrix_wait(float (&d)[N]) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define KW_SUMS_8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
    "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define KW_SUMS_32(i) KW_SUMS_8(i), KW_SUMS_8(i + 8), KW_SUMS_8(i + 16), KW_SUMS_8(i + 24)
#define KW_FIRST_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define KW_NEXT_32 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d[64 x 64] (+)= a[64 x 16] * b[64 x 16]^T for the warpgroup, asynchronous until matrix_wait. d[4 * j + 2 * half + i]
// is row 16 * warp + lane / 4 + 8 * half, column 8 * j + lane % 4 * 2 + i.
__device__ __forceinline__ void matrix_multiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" KW_FIRST_32 "}, %32, %33, add, 1, 1, 0, 0;\n"
        "}\n"
        : KW_SUMS_32(0)
        : "l"(a), "l"(b), "r"(add));
}

// d[64 x 128] (+)= a[64 x 16] * b[128 x 16]^T for the warpgroup, asynchronous until matrix_wait. d is laid out as
// above.
__device__ __forceinline__ void matrix_multiply(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KW_FIRST_32 ", " KW_NEXT_32
        "}, %64, %65, add, 1, 1, 0, 0;\n"
        "}\n"
        : KW_SUMS_32(0), KW_SUMS_32(32)
        : "l"(a), "l"(b), "r"(add));
}

#undef KW_NEXT_32
#undef KW_FIRST_32
#undef KW_SUMS_32
#undef KW_SUMS_8

}  // namespace kernelwright::matrix
