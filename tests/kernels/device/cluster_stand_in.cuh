// In the place of cluster_sm90.cuh for the emulator's translation of C++: clusters of one block.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace kernelwright::sm90 {

__device__ inline void cluster_arrive() {}
__device__ inline void cluster_begun() {}
__device__ inline void cluster_wait() { __syncthreads(); }
__device__ inline int cluster_number() { return blockIdx.x; }
__device__ inline int cluster_rank() { return 0; }

__device__ inline void barrier_step(uint64_t* barrier, int arrivals, int bytes);  // of bulk_stand_in.cuh

template <typename Value>
__device__ inline void send_to_block(Value* to, int, const Value& value, uint64_t* barrier) {
    *to = value;
    __threadfence();
    barrier_step(barrier, 0, sizeof value);
}

__device__ inline float approximate_exp2(float z) { return exp2f(z); }
__device__ inline float approximate_reciprocal(float z) { return 1.0f / z; }

}  // namespace kernelwright::sm90
