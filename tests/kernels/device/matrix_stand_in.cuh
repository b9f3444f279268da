// matrix_sm90.cuh in plain CUDA, for the emulator. A product reads its tiles as the hardware is documented to: bits 4 to
// 6 of an address are exchanged by bits 7 to 9. What is left to show on a GPU is that the hardware does so.
#include <cuda_fp16.h>

#include "../../../agent/kernels/csrc/bulk_sm90.cuh"

namespace kernelwright::matrix {

using namespace kernelwright::sm90;

constexpr int kRowBytes = 128;
constexpr int kAtomBytes = 1024;

__host__ __device__ inline int swizzled(int row, int piece) { return row * kRowBytes + (piece ^ (row % 8)) * 16; }

__device__ inline uint64_t tile_descriptor(const void* address) { return reinterpret_cast<uint64_t>(address); }
__device__ inline void matrix_begin() {}
__device__ inline void matrix_wait(float (&)[64]) { __syncwarp(); }

__device__ inline float element(uint64_t tile, int row, int column) {
    const uint64_t address = tile + row * kRowBytes + column * 2;
    return __half2float(*reinterpret_cast<const __half*>(address ^ ((address >> 7 & 7) << 4)));
}

__device__ inline void matrix_multiply(float (&d)[64], uint64_t a, uint64_t b, int add) {
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < 64; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        float sum = add ? d[i] : 0.0f;
        for (int k = 0; k < 16; ++k) sum = fmaf(element(a, row, k), element(b, column, k), sum);
        d[i] = sum;
    }
}

}  // namespace kernelwright::matrix
