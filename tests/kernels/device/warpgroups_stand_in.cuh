// warpgroups_sm90.cuh in plain CUDA, for the emulator: what is stored is seen, registers are as many as there are, and
// products are done when they are issued.
#include "../../../agent/kernels/csrc/matrix_sm90.cuh"

namespace kernelwright::sm90 {

__device__ inline void stores_made() { __threadfence(); }

__device__ inline void all_stores_made() { __threadfence(); }

__device__ inline int load_acquire(const int* from) { return atomicAdd(const_cast<int*>(from), 0); }

__device__ inline int this_lane() { return static_cast<int>(threadIdx.x) % 32; }

__device__ inline void copy_element(void* to, const void* from, bool is_there) {
    *static_cast<float*>(to) = is_there ? *static_cast<const float*>(from) : 0.0f;
}
__device__ inline void copies_asked() {}
template <int LATER>
__device__ inline void copies_made() {}

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
