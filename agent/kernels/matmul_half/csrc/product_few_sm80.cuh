// The same product where a call is short: small tiles, so that there is one for every SM, and all that registers do not hold
// on its way at once.
#pragma once

#include "../../csrc/launched.cuh"
#include "product_sm80.cuh"

namespace kernelwright::matmul_half {

constexpr int kFewThreads = 128;

// Of slices of SLICE of depth and tiles of SIDE x SIDE, a warp a quarter of it.
template <int SIDE, int SLICE, bool ACROSS>
struct Few {
    static constexpr int kPieces = (ACROSS ? SIDE : SLICE) / kEight;  // of 16 bytes in a line
    static constexpr int kBytes = SIDE * SLICE * 2;

    __device__ __forceinline__ static int place_of(int row, int depth) {
        const int line = ACROSS ? depth : row, piece = (ACROSS ? row : depth) / kEight;
        return (line * kPieces + (piece ^ (kPieces == 4 ? line / 2 % 4 : line % 8))) * 16;
    }

    template <typename T>
    __device__ __forceinline__ static void load(unsigned char* to, const Side<T>& of, int64_t first, int64_t begin) {
        #pragma unroll
        for (int i = 0; i < SIDE * SLICE / kEight / kFewThreads; ++i) {
            const int at = i * kFewThreads + static_cast<int>(threadIdx.x), line = at / kPieces, piece = at % kPieces * kEight;
            const int row = ACROSS ? piece : line, depth = ACROSS ? line : piece;
            const int count = neighbours_at<ACROSS>(of, first + row, begin + depth);
            const T* from = of.values + (first + row) * of.row_step + (begin + depth) * of.depth_step;
            sm80::copy_begun(to + place_of(row, depth), count > 0 ? from : of.values, count * static_cast<int>(sizeof(T)));
        }
    }

    // As load_fragment.
    template <bool B>
    __device__ __forceinline__ static void fragment(uint32_t (&to)[4], const unsigned char* slice, int row, int depth) {
        const int lane = threadIdx.x % 32, inner = lane % 8, low = lane / 8 % 2, high = lane / 16;
        const int rows = B ? high : low, depths = B ? low : high;
        const int at_row = row + rows * 8 + (ACROSS ? 0 : inner), at_depth = depth + depths * 8 + (ACROSS ? inner : 0);
        sm80::load_matrices<ACROSS>(to, slice + place_of(at_row, at_depth));
    }
};

template <typename T, bool A_ACROSS, bool B_ACROSS, int SIDE, int SLICE, int STAGES>
__global__ void __launch_bounds__(kFewThreads) matmul_half_few(const __grid_constant__ Forward args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    using A = Few<SIDE, SLICE, A_ACROSS>;
    using B = Few<SIDE, SLICE, B_ACROSS>;
    __shared__ __align__(128) unsigned char ring[STAGES][2][A::kBytes];
    constexpr int kOwn = SIDE / 2, kSixteens = kOwn / 16;
    const Tile tile = {blockIdx.z, int64_t{blockIdx.y} * SIDE, int64_t{blockIdx.x} * SIDE};
    const Side<T> a = side_of<T>(args.a, tile.batch * args.a_batch, args.m, args.k, args.a_row, args.a_depth, true);
    const Side<T> b = side_of<T>(args.b, tile.batch * args.b_batch, args.n, args.k, args.b_column, args.b_depth, true);
    const int stages = static_cast<int>((args.k + SLICE - 1) / SLICE);
    const auto load = [&](int stage) {
        if (stage < stages) {
            A::load(ring[stage % STAGES][0], a, tile.row, int64_t{stage} * SLICE);
            B::load(ring[stage % STAGES][1], b, tile.column, int64_t{stage} * SLICE);
        }
        sm80::copies_issued();
    };
    const int warp = threadIdx.x / 32, row = warp % 2 * kOwn, column = warp / 2 * kOwn;
    float sum[kSixteens][2 * kSixteens][4] = {};
    await_earlier();
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) load(stage);
    for (int stage = 0; stage < stages; ++stage) {
        sm80::copies_done<STAGES - 2>();
        __syncthreads();  // and the stage before is multiplied: its place is free
        load(stage + STAGES - 1);
        const auto& now = ring[stage % STAGES];
        #pragma unroll
        for (int depth = 0; depth < SLICE; depth += 16) {
            uint32_t of_a[kSixteens][4], of_b[kSixteens][4];
            #pragma unroll
            for (int i = 0; i < kSixteens; ++i) A::template fragment<false>(of_a[i], now[0], row + i * 16, depth);
            #pragma unroll
            for (int j = 0; j < kSixteens; ++j) B::template fragment<true>(of_b[j], now[1], column + j * 16, depth);
            #pragma unroll
            for (int i = 0; i < kSixteens; ++i) {
                #pragma unroll
                for (int j = 0; j < 2 * kSixteens; ++j) {
                    sm80::add_product(sum[i][j], of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1], T{});
                }
            }
        }
    }
    const int lane = threadIdx.x % 32;
    const Result<T> result(args, tile.batch, tile.row + row + lane / 4, tile.column + column + lane % 4 * 2);
    #pragma unroll
    for (int i = 0; i < kSixteens; ++i) {
        #pragma unroll
        for (int j = 0; j < 2 * kSixteens; ++j) {
            result.store(sum[i][j], i * 16, j * 8);
            result.store(sum[i][j] + 2, i * 16 + 8, j * 8);
        }
    }
#endif
}

template <typename T, bool A_ACROSS, bool B_ACROSS, int SIDE, int SLICE, int STAGES>
cudaError_t multiply_few(const Forward& args) {
    const dim3 grid(unsigned((args.n + SIDE - 1) / SIDE), unsigned((args.m + SIDE - 1) / SIDE), unsigned(args.batch));
    return launched(matmul_half_few<T, A_ACROSS, B_ACROSS, SIDE, SLICE, STAGES>, grid, kFewThreads, args.stream, args);
}

}  // namespace kernelwright::matmul_half
