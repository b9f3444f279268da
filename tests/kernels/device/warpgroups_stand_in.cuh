// warpgroups_sm90.cuh in plain CUDA, for the emulator: what is stored is seen, registers are as many as there are, and
// products are done when they are issued.
#include "../../../agent/kernels/csrc/matrix_sm90.cuh"

namespace kernelwright::sm90 {

__device__ inline void stores_made() { __threadfence(); }

template <int COUNT>
__device__ inline void take_registers() {}

template <int COUNT>
__device__ inline void give_registers() {}

__device__ inline void products_issued() {}

template <int LATER, int N>
__device__ inline void products_done(float (&)[N]) {
    __syncwarp();
}

}  // namespace kernelwright::sm90
