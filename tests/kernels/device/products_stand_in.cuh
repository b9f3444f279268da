// products_sm90.cuh in plain CUDA, for the emulator. A product reads its operands where the hardware was measured to
// (docs/tensor-cores.md): what is left to show on a GPU are the instructions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../../agent/kernels/csrc/matrix_sm90.cuh"

namespace kernelwright::matmul_half::sm90 {

__device__ inline uint64_t panel_descriptor(const void* begin, uint64_t panel) {
    return reinterpret_cast<uint64_t>(begin) | panel / matrix::kAtomBytes << 52;
}

template <bool ACROSS>
__device__ inline uint16_t element(uint64_t matrix, int row, int k) {
    uint64_t address = ACROSS ? (matrix & 0xfffffffffffffull) + row / 64 * (matrix >> 52) * matrix::kAtomBytes + k * 128 + row % 64 * 2
                              : (matrix ^ matrix::kTile) + row * 128 + k * 2;
    address ^= (address >> 7 & 7) << 4;
    return *reinterpret_cast<const uint16_t*>(address);
}

__device__ inline float float_of(uint16_t bits, __half) { return __half2float(__ushort_as_half(bits)); }
__device__ inline float float_of(uint16_t bits, __nv_bfloat16) { return __bfloat162float(__ushort_as_bfloat16(bits)); }

template <bool A_ACROSS, bool B_ACROSS, typename T>
__device__ inline void add_product(float (&d)[64], uint64_t a, uint64_t b, T kind) {
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < 64; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            const float of_a = float_of(element<A_ACROSS>(a, row, k), kind);
            d[i] = fmaf(of_a, float_of(element<B_ACROSS>(b, column, k), kind), d[i]);
        }
    }
}

}  // namespace kernelwright::matmul_half::sm90
