// Instructions of sm_90 for blocks whose warpgroups have different work, and for products that stay in flight while others
// are added up. Not for the emulator.
#pragma once

#include "matrix_sm90.cuh"

namespace kernelwright::sm90 {

// What this thread stored to shared memory is seen by the tensor cores once a barrier has been passed.
__device__ __forceinline__ void stores_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers of a thread of this warpgroup, from here on.
template <int COUNT>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// The products issued since the last call are one group.
__device__ __forceinline__ void products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// All groups but the LATER last ones are done; d holds the sums of one that is. The compiler does not know that d changes
// until then.
template <int LATER, int N>
__device__ __forceinline__ void products_done(float (&d)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace kernelwright::sm90
