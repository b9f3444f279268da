// Products of 64 x 64 x 16 on the tensor cores of sm_90a, and what goes with them. Not for the emulator.
#pragma once

#include "../../csrc/bulk_sm90.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

using namespace kernelwright::sm90;

// A matrix of rows of 8 fp16 (16 bytes): 8 rows lie beside each other, the next 8 follow `rows_step` pieces of 16 bytes
// later, and the other 8 fp16 of the 16 that a product takes `depth_step` pieces. Begins at any multiple of 16 bytes.
__device__ __forceinline__ uint64_t matrix_at(const void* begin, uint32_t depth_step, uint32_t rows_step) {
    return uint64_t{(shared_address(begin) & 0x3ffff) >> 4} | uint64_t{depth_step} << 16 | uint64_t{rows_step} << 32;
}

__device__ __forceinline__ void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products issued so far are done, and d holds them. The compiler does not know that d changes until then.
__device__ __forceinline__ void matrix_wait(float (&d)[32]) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d[64 x 64] (+)= a[64 x 16] * b[64 x 16]^T, for the warpgroup; asynchronous until matrix_wait. d[4 * j + 2 * half + i]
// is row 16 * warp + lane / 4 + 8 * half, column 8 * j + lane % 4 * 2 + i.
__device__ __forceinline__ void matrix_multiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
          "%0, %1, %2, %3, %4, %5, %6, %7, "
          "%8, %9, %10, %11, %12, %13, %14, %15, "
          "%16, %17, %18, %19, %20, %21, %22, %23, "
          "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(add));
}

// What this thread has written to shared memory is seen by the products that are issued after a barrier.
__device__ __forceinline__ void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// `threads` threads of the block meet; `id` is 1 to 15.
__device__ __forceinline__ void some_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// 2^v, and 0 for v below -126; two units in the last place.
__device__ __forceinline__ float power_of_2(float v) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

__device__ __forceinline__ float inverse(float v) {
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

}  // namespace kernelwright::conv_logsumexp::sm90
