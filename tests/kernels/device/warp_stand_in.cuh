// warp_sm80.cuh in plain CUDA, for the emulator: a copy is made at once, fragments and products are dealt out by shuffles.
// What is left to show on a GPU are the instructions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace kernelwright::sm80 {

__device__ inline void copy_begun(void* to, const void* from, int bytes) {
    auto* room = static_cast<uint16_t*>(to);
    const auto* given = static_cast<const uint16_t*>(from);
    for (int i = 0; i < 8; ++i) room[i] = 2 * i < bytes ? given[i] : uint16_t{0};
}

__device__ inline void copies_issued() {}

template <int LEFT>
__device__ inline void copies_done() {}

__device__ inline uint32_t both(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

template <bool TURNED>
__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
    const int lane = threadIdx.x % 32, first = lane / 4, second = lane % 4 * 2;
    const auto mine = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(row));
    for (int i = 0; i < 4; ++i) {
        const auto at = [&](int of_row) {
            return reinterpret_cast<const uint16_t*>(
                static_cast<uintptr_t>(__shfl_sync(0xffffffffu, mine, 8 * i + of_row)));
        };
        const uint16_t *one = at(TURNED ? second : first), *other = at(TURNED ? second + 1 : first);
        to[i] = TURNED ? both(one[first], other[first]) : both(one[second], other[second + 1]);
    }
}

__device__ inline float half_of(uint32_t two, int which, __half) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> 16 * which)));
}
__device__ inline float half_of(uint32_t two, int which, __nv_bfloat16) {
    return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(two >> 16 * which)));
}

template <typename T>
__device__ inline void add_product(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T kind) {
    const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    for (int k = 0; k < 16; ++k) {
        const int of_k = k % 8 / 2, upper = k / 8;
        float of_a[2], of_b[2];
        for (int i = 0; i < 2; ++i) {
            of_a[i] = half_of(__shfl_sync(0xffffffffu, a[2 * upper + i], row * 4 + of_k), k % 2, kind);
            of_b[i] = half_of(__shfl_sync(0xffffffffu, upper == 0 ? b0 : b1, (column + i) * 4 + of_k), k % 2, kind);
        }
        for (int i = 0; i < 4; ++i) sum[i] = fmaf(of_a[i / 2], of_b[i % 2], sum[i]);
    }
}

}  // namespace kernelwright::sm80
