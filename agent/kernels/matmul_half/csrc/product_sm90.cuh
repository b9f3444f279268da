// y = alpha * a * b + beta * c by wgmma, sm_90a, for operands that both allow copies of 16 bytes.
//
// A block of two warpgroups computes a tile of 128 x 128, a warpgroup 64 rows of it, from slices of 64 of K. Slices have the
// layout of the tensor cores, swizzled over 128 bytes: [128 rows][64 of K], or for operands contiguous along rows two panels
// [64 of K][64 rows]. Every thread copies (cp.async) and multiplies. Two blocks share an SM, so that one copies while the
// other multiplies.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "product_sm80.cuh"
#include "products_sm90.cuh"

namespace kernelwright::matmul_half::sm90 {

using kernelwright::sm90::products_done;
using kernelwright::sm90::products_issued;
using kernelwright::sm90::stores_made;

constexpr int kDeep = 64;  // K of a slice
constexpr int kRing = 3;
constexpr int kOperandBytes = kSide * kDeep * 2;
constexpr int kPanelBytes = kDeep * matrix::kRowBytes;  // 64 rows of an operand contiguous along rows
constexpr int kSharedBytes = kRing * 2 * kOperandBytes + matrix::kAtomBytes;

template <bool ACROSS>
__device__ __forceinline__ int swizzled_place(int row, int depth) {
    if (ACROSS) return row / 64 * kPanelBytes + matrix::swizzled(depth, row % 64 / kEight);
    return matrix::swizzled(row, depth / kEight);
}

template <typename T, bool ACROSS>
__device__ __forceinline__ void copy_slice(unsigned char* to, const Side<T>& of, int64_t first, int64_t begin) {
    constexpr int kPieces = kSide * kDeep / kEight;
    #pragma unroll 2  // a full unroll by four needs too many registers
    for (int i = 0; i < kPieces / kThreads; ++i) {
        const int piece = i * kThreads + static_cast<int>(threadIdx.x);
        const int row = ACROSS ? piece % (kSide / kEight) * kEight : piece / (kDeep / kEight);
        const int depth = ACROSS ? piece / (kSide / kEight) : piece % (kDeep / kEight) * kEight;
        const int count = neighbours_at<ACROSS>(of, first + row, begin + depth);
        const T* from = of.values + (first + row) * of.row_step + (begin + depth) * of.depth_step;
        sm80::copy_begun(to + swizzled_place<ACROSS>(row, depth), count > 0 ? from : of.values,
                         count * static_cast<int>(sizeof(T)));
    }
}

// Returns the descriptor for 16 of K, step `step` of a slice, from row `row` on.
template <bool ACROSS>
__device__ __forceinline__ uint64_t descriptor_of(const unsigned char* slice, int row, int step) {
    if (ACROSS) return panel_descriptor(slice + row / 64 * kPanelBytes + step * 16 * matrix::kRowBytes, kPanelBytes);
    return matrix::tile_descriptor(slice + row * matrix::kRowBytes + step * 32);
}

template <typename T, bool A_ACROSS, bool B_ACROSS>
__global__ void __launch_bounds__(kThreads, 2) matmul_half_sm90(const __grid_constant__ Forward args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
    extern __shared__ unsigned char shared[];
    const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
    unsigned char* const ring = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
    const Tile tile = tile_at(args, blockIdx.x);
    const Side<T> a = side_of<T>(args.a, tile.batch * args.a_batch, args.m, args.k, args.a_row, args.a_depth, true);
    const Side<T> b = side_of<T>(args.b, tile.batch * args.b_batch, args.n, args.k, args.b_column, args.b_depth, true);
    const int stages = static_cast<int>((args.k + kDeep - 1) / kDeep);
    const auto load = [&](int stage) {
        unsigned char* to = ring + stage % kRing * 2 * kOperandBytes;
        if (stage < stages) {
            copy_slice<T, A_ACROSS>(to, a, tile.row, int64_t{stage} * kDeep);
            copy_slice<T, B_ACROSS>(to + kOperandBytes, b, tile.column, int64_t{stage} * kDeep);
        }
        sm80::copies_issued();
    };
    const int group = threadIdx.x / 128;
    float sum[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sum[i] = 0.0f;
    #pragma unroll 1
    for (int stage = 0; stage < kRing - 1; ++stage) load(stage);
    for (int stage = 0; stage < stages; ++stage) {
        sm80::copies_done<kRing - 2>();
        stores_made();
        __syncthreads();  // all warps are done with the previous stage, so its slot is free
        load(stage + kRing - 1);
        const unsigned char* now = ring + stage % kRing * 2 * kOperandBytes;
        matrix::matrix_begin();
        #pragma unroll
        for (int step = 0; step < kDeep / 16; ++step) {
            add_product<A_ACROSS, B_ACROSS>(sum, descriptor_of<A_ACROSS>(now, group * 64, step),
                                            descriptor_of<B_ACROSS>(now + kOperandBytes, 0, step), T{});
        }
        products_issued();
        products_done<0>(sum);
    }
    const int thread = threadIdx.x % 128;
    const int row = group * 64 + thread / 32 * 16 + thread % 32 / 4;
    const Result<T> result(args, tile.batch, tile.row + row, tile.column + thread % 4 * 2);
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        result.store(sum + 4 * j, 0, 8 * j);
        result.store(sum + 4 * j + 2, 8, 8 * j);
    }
#endif
}

template <typename T, bool A_ACROSS, bool B_ACROSS>
cudaError_t multiply_as(const Forward& args, unsigned blocks) {
    const auto kernel = matmul_half_sm90<T, A_ACROSS, B_ACROSS>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<blocks, kThreads, kSharedBytes, args.stream>>>(args);
    return cudaGetLastError();
}

template <typename T>
cudaError_t multiply(const Forward& args, unsigned blocks, bool a_across, bool b_across) {
    if (a_across) return b_across ? multiply_as<T, true, true>(args, blocks) : multiply_as<T, true, false>(args, blocks);
    return b_across ? multiply_as<T, false, true>(args, blocks) : multiply_as<T, false, false>(args, blocks);
}

}  // namespace kernelwright::matmul_half::sm90
