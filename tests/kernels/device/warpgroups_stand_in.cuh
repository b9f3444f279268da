// warpgroups_sm90.cuh in plain CUDA, for the emulator: what is stored is seen, and registers are as many as
// there are.
#include "../../../agent/kernels/csrc/matrix_sm90.cuh"

namespace kernelwright::sm90 {

__device__ inline void stores_made() { __threadfence(); }

template <int COUNT>
__device__ inline void take_registers() {}

template <int COUNT>
__device__ inline void give_registers() {}

}  // namespace kernelwright::sm90
