// Ping-pong of two warpgroups that issue products in turn. In lockstep both would add up sums while the tensor cores idle. The
// emulator without PTX does not run this file.
#pragma once

#include "../../linear_fp32x3/csrc/product_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kFirstTurn = 2;  // barrier id of the first warpgroup

// Waits for the turn of this warpgroup. Each call is matched by one give_turn_to of the other warpgroup.
__device__ __forceinline__ void await_turn(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(kFirstTurn + group), "n"(128 * linear::kConsumers) : "memory");
}

__device__ __forceinline__ void give_turn_to(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(kFirstTurn + group), "n"(128 * linear::kConsumers) : "memory");
}

}  // namespace kernelwright::matmul
