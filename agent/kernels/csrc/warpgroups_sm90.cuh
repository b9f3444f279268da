// Instructions of sm_90 for blocks whose warpgroups have different work. Not for the emulator.
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

}  // namespace kernelwright::sm90
