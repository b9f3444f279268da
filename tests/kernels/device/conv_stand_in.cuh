// csrc/sm90_matrix.cuh of the convolution in plain CUDA, for the emulator. A product reads its operands where the hardware
// is documented to, and cuts its sums off: what is left to show on a GPU is that it does so.
#include <cuda_fp16.h>

#include "../../../agent/kernels/csrc/bulk_sm90.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

using namespace kernelwright::sm90;

__device__ inline uint64_t matrix_at(const void* begin, uint64_t depth_step, uint64_t rows_step) {
    return reinterpret_cast<uint64_t>(begin) >> 4 | depth_step << 44 | rows_step << 56;
}

__device__ inline void matrix_begin() {}
__device__ inline void matrix_wait(float (&)[32]) { __syncwarp(); }

__device__ inline float element(uint64_t matrix, int row, int k) {
    const uint64_t begin = matrix & 0xfffffffffffull, depth = matrix >> 44 & 0xfff, rows = matrix >> 56;
    const uint64_t piece = begin + row / 8 * rows + row % 8 + k / 8 * depth;
    return __half2float(reinterpret_cast<const __half*>(piece << 4)[k % 8]);
}

__device__ inline void matrix_multiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < 32; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = add ? d[i] : 0.0f;
        for (int k = 0; k < 16; ++k) sum += static_cast<double>(element(a, row, k)) * element(b, column, k);
        d[i] = __double2float_rz(sum);
    }
}

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
