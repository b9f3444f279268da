// csrc/sm90_instructions.cuh of the convolution in plain CUDA, for the emulator.
#include "../../../agent/kernels/csrc/matrix_sm90.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

using namespace kernelwright::matrix;

__device__ inline void shared_written() { __threadfence(); }

// For blocks up to 4096.
__device__ unsigned int arrived[1 << 16];

__device__ inline void some_sync(int id, int threads) {
    unsigned int* of_these = &arrived[blockIdx.x * 16 + id];
    __threadfence();
    const unsigned int before = atomicAdd(of_these, 1u);
    const unsigned int wanted = (before / threads + 1) * threads;
    while (atomicAdd(of_these, 0u) < wanted) {
    }
}

__device__ inline float power_of_2(float v) { return exp2f(v); }
__device__ inline float inverse(float v) { return 1.0f / v; }

}  // namespace kernelwright::conv_logsumexp::sm90
