// sm_90a instructions used with the products of `matrix`. Not for the emulator.
#pragma once

#include "../../csrc/matrix_sm90.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

using namespace kernelwright::matrix;

// Makes this thread's writes to shared memory visible to products that are issued after a barrier.
__device__ __forceinline__ void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Named barrier for `threads` threads of the block; `id` is 1 to 15.
__device__ __forceinline__ void some_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Returns 2^v, flushed to 0 for v below -126, with an error of up to 2 ulp.
__device__ __forceinline__ float power_of_2(float v) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

__device__ __forceinline__ float inverse(float v) {
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

}  // namespace kernelwright::conv_logsumexp::sm90
