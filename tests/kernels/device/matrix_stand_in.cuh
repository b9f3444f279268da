// matrix_sm90.cuh in plain CUDA, for the emulator. A product reads its operands where the hardware is documented to (in
// a tile bits 4 to 6 of an address are exchanged by bits 7 to 9), and cuts its sums off: what is left to show on a GPU is
// that it does so.
#include <cuda_fp16.h>

#include "../../../agent/kernels/csrc/bulk_sm90.cuh"

namespace kernelwright::matrix {

using namespace kernelwright::sm90;

constexpr int kRowBytes = 128;
constexpr int kAtomBytes = 1024;
constexpr uint64_t kTile = uint64_t{1} << 62;

__host__ __device__ inline int swizzled(int row, int piece) { return row * kRowBytes + (piece ^ (row % 8)) * 16; }

__device__ inline uint64_t tile_descriptor(const void* address) { return reinterpret_cast<uint64_t>(address) | kTile; }

__device__ inline uint64_t pieces_descriptor(const void* begin, uint64_t depth_step, uint64_t rows_step) {
    return reinterpret_cast<uint64_t>(begin) >> 4 | depth_step << 44 | rows_step << 56;
}

__device__ inline void matrix_begin() {}

template <int N>
__device__ inline void matrix_wait(float (&)[N]) {
    __syncwarp();
}

__device__ inline float element(uint64_t matrix, int row, int k) {
    uint64_t address;
    if (matrix & kTile) {
        address = (matrix ^ kTile) + row * kRowBytes + k * 2;
        address ^= (address >> 7 & 7) << 4;
    } else {
        const uint64_t begin = matrix & 0xfffffffffffull, depth = matrix >> 44 & 0xfff, rows = matrix >> 56;
        address = (begin + row / 8 * rows + row % 8 + k / 8 * depth) * 16 + k % 8 * 2;
    }
    return __half2float(*reinterpret_cast<const __half*>(address));
}

template <int N>
__device__ inline void matrix_multiply(float (&d)[N], uint64_t a, uint64_t b, int add) {
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < N; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = add ? d[i] : 0.0f;
        for (int k = 0; k < 16; ++k) sum += static_cast<double>(element(a, row, k)) * element(b, column, k);
        d[i] = __double2float_rz(sum);
    }
}

}  // namespace kernelwright::matrix
