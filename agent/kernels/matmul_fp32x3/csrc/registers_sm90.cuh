// wgmma in bf16 and fp16 with the left operand in registers, sm_90a only. Not for the emulator without PTX.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"

namespace kernelwright::matmul {

#define KW_SUMS_8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
    "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define KW_SUMS_32(i) KW_SUMS_8(i), KW_SUMS_8(i + 8), KW_SUMS_8(i + 16), KW_SUMS_8(i + 24)
#define KW_FIRST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define KW_FIRST_32 \
    KW_FIRST_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define KW_FIRST_64 \
    KW_FIRST_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KW_PRODUCT(TYPE, COLUMNS, FIRST, A0, A1, A2, A3, B, ADD) \
    "{\n" \
    ".reg .pred add;\n" \
    "setp.ne.b32 add, %" ADD ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" FIRST "}, " \
    "{%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B ", add, 1, 1, 0;\n" \
    "}\n"
#define KW_OF_REGISTERS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)

// d[64 x N] (+)= a[64 x 16] * b[N x 16]^T, asynchronous. Each warp holds 16 rows of a. Register i holds row lane / 4 + 8 * (i % 2) at
// depths lane % 4 * 2 + 8 * (i / 2) and the next one. Layout of d as in matrix_multiply.
#define KW_MULTIPLY(NAME, TYPE) \
    __device__ __forceinline__ void NAME(float (&d)[16], const uint32_t (&a)[4], uint64_t b, int add) { \
        asm volatile(KW_PRODUCT(TYPE, "32", KW_FIRST_16, "16", "17", "18", "19", "20", "21") : KW_SUMS_8(0), KW_SUMS_8(8) KW_OF_REGISTERS); \
    } \
    __device__ __forceinline__ void NAME(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) { \
        asm volatile(KW_PRODUCT(TYPE, "64", KW_FIRST_32, "32", "33", "34", "35", "36", "37") : KW_SUMS_32(0) KW_OF_REGISTERS); \
    } \
    __device__ __forceinline__ void NAME(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int add) { \
        asm volatile(KW_PRODUCT(TYPE, "128", KW_FIRST_64, "64", "65", "66", "67", "68", "69") \
                     : KW_SUMS_32(0), KW_SUMS_32(32) KW_OF_REGISTERS); \
    }

KW_MULTIPLY(multiply_bf16, "bf16")
KW_MULTIPLY(multiply_fp16, "f16")

#undef KW_MULTIPLY
#undef KW_OF_REGISTERS
#undef KW_PRODUCT
#undef KW_FIRST_64
#undef KW_FIRST_32
#undef KW_FIRST_16
#undef KW_SUMS_32
#undef KW_SUMS_8

}  // namespace kernelwright::matmul
