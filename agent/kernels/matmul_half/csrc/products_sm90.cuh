// wgmma of both 16-bit types, each operand K-major or MN-major, sm_90a only. Not for the emulator's own compiler.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../csrc/matrix_sm90.cuh"

namespace kernelwright::matmul_half::sm90 {

// Returns the descriptor for a K of 16 of an operand that is contiguous along rows. Each K has 128 bytes of 64 rows,
// swizzled, with 8 of K per atom. The next 64 rows lie `panel` bytes further.
__device__ __forceinline__ uint64_t panel_descriptor(const void* begin, uint32_t panel) {
    const uint64_t start = (matrix::shared_address(begin) & 0x3ffff) >> 4, atoms = matrix::kAtomBytes >> 4;
    return start | uint64_t{panel >> 4} << 16 | atoms << 32 | uint64_t{1} << 62;
}

#define KW_SUMS_8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
    "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define KW_SUMS_32(i) KW_SUMS_8(i), KW_SUMS_8(i + 8), KW_SUMS_8(i + 16), KW_SUMS_8(i + 24)
#define KW_ALL_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d[64 x 128] += a[64 x 16] * b[128 x 16]^T by a warpgroup; layout of d as in matrix::matrix_multiply.
template <bool A_ACROSS, bool B_ACROSS>
__device__ __forceinline__ void add_product(float (&d)[64], uint64_t a, uint64_t b, __half) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KW_ALL_64 "}, %64, %65, 1, 1, 1, %66, %67;\n"
                 : KW_SUMS_32(0), KW_SUMS_32(32)
                 : "l"(a), "l"(b), "n"(int(A_ACROSS)), "n"(int(B_ACROSS)));
}
template <bool A_ACROSS, bool B_ACROSS>
__device__ __forceinline__ void add_product(float (&d)[64], uint64_t a, uint64_t b, __nv_bfloat16) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" KW_ALL_64 "}, %64, %65, 1, 1, 1, %66, %67;\n"
                 : KW_SUMS_32(0), KW_SUMS_32(32)
                 : "l"(a), "l"(b), "n"(int(A_ACROSS)), "n"(int(B_ACROSS)));
}

#undef KW_ALL_64
#undef KW_SUMS_32
#undef KW_SUMS_8

}  // namespace kernelwright::matmul_half::sm90
