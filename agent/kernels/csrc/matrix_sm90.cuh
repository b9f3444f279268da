// Matrix products of a warpgroup from shared memory (wgmma), sm_90a only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "bulk_sm90.cuh"

namespace kernelwright::matrix {

using namespace kernelwright::sm90;

constexpr int kRowBytes = 128;   // 64 fp16 of one row: the width of the swizzle
constexpr int kAtomBytes = 1024; // 8 rows

// Where 16 bytes of a tile of rows of 64 fp16 lie, in the layout that the products read: the 16-byte pieces of a row
// change places by the row's number, so that a column of them meets all banks.
__host__ __device__ inline int swizzled(int row, int piece) { return row * kRowBytes + (piece ^ (row % 8)) * 16; }

// A tile at `address` (a multiple of 1024 bytes, plus 32 for each 16 columns gone by), in shared memory.
__device__ __forceinline__ uint64_t tile_descriptor(const void* address) {
    const uint64_t begin = (shared_address(address) & 0x3ffff) >> 4;
    const uint64_t atoms = kAtomBytes >> 4;
    return begin | uint64_t{1} << 16 | atoms << 32 | uint64_t{1} << 62;
}

__device__ __forceinline__ void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products issued so far are done, and d holds them. The compiler does not know that d changes until then.
__device__ __forceinline__ void matrix_wait(float (&d)[64]) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d[64 x 128] (+)= a[64 x 16] * b[128 x 16]^T, for the warpgroup; asynchronous until matrix_wait.
__device__ __forceinline__ void matrix_multiply(float (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
          "%0, %1, %2, %3, %4, %5, %6, %7, "
          "%8, %9, %10, %11, %12, %13, %14, %15, "
          "%16, %17, %18, %19, %20, %21, %22, %23, "
          "%24, %25, %26, %27, %28, %29, %30, %31, "
          "%32, %33, %34, %35, %36, %37, %38, %39, "
          "%40, %41, %42, %43, %44, %45, %46, %47, "
          "%48, %49, %50, %51, %52, %53, %54, %55, "
          "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(add));
}

}  // namespace kernelwright::matrix
