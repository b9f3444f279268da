// Two warpgroups of a block that take turns at issuing products: in step, both would add up sums while the tensor cores have
// nothing to do. Not for the emulator without PTX.
#pragma once

#include "../../linear_fp32x3/csrc/product_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kFirstTurn = 2;  // the number of the first one's barrier

// Each turn that is awaited is given once, by the other warpgroup.
__device__ __forceinline__ void await_turn(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(kFirstTurn + group), "n"(128 * linear::kConsumers) : "memory");
}

__device__ __forceinline__ void give_turn_to(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(kFirstTurn + group), "n"(128 * linear::kConsumers) : "memory");
}

}  // namespace kernelwright::matmul
