// y = alpha * a * b + beta * c for 16-bit elements with float32 sums on the tensor cores: sm_80 and later, any layout.
//
// A block of 8 warps computes a tile of 128 x 128, a warp 64 x 32 of it, from slices of 32 of K. Slices keep the memory order of
// their operand, contiguous along K or along rows. A ring of three slices is filled by asynchronous copies. Operands that are
// contiguous neither along K nor along rows, or not aligned to 16 bytes, are copied by elements.
#pragma once

#include "sizes.cuh"
#include "warp_sm80.cuh"

namespace kernelwright::matmul_half {

constexpr int kSide = 128;
constexpr int kSlice = 32;  // K of a slice
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kBand = 8;    // rows of tiles per band
constexpr int kEight = 8;   // elements per copy of 16 bytes
constexpr int kTileBytes = kSide * kSlice * 2;
constexpr int kOfWarp[2] = {64, 32};  // rows and columns of a warp's part

// One operand of one product, by its rows (m rows of a, n columns of b) and its depth K.
template <typename T>
struct Side {
    const T* values;
    int64_t rows, depth;
    int64_t row_step, depth_step;
    bool by_eights;  // allows copies of 16 bytes
};

template <typename T>
__device__ __forceinline__ Side<T> side_of(const void* values, int64_t begin, int64_t rows, int64_t depth, int64_t row_step,
                                           int64_t depth_step, bool by_eights) {
    return {static_cast<const T*>(values) + begin, rows, depth, row_step, depth_step, by_eights};
}

// Returns the number of the eight adjacent elements that lie inside the operand.
template <bool ACROSS, typename T>
__device__ __forceinline__ int neighbours_at(const Side<T>& of, int64_t row, int64_t depth) {
    const int64_t along = ACROSS ? of.rows - row : of.depth - depth, other = ACROSS ? of.depth - depth : of.rows - row;
    return other > 0 ? static_cast<int>(max(int64_t{0}, min(along, int64_t{kEight}))) : 0;
}

// Returns the offset of eight elements in a slice. With ACROSS the slice is contiguous along rows, [32 of K][128 rows], else
// along K, [128 rows][32]. Eight pieces that are read together lie in different banks.
template <bool ACROSS>
__device__ __forceinline__ int place_of(int row, int depth) {
    if (ACROSS) return depth * kSide * 2 + ((row / kEight) ^ (depth % 8)) * 16;
    return row * kSlice * 2 + ((depth / kEight) ^ (row / 2 % 4)) * 16;
}

// Starts to copy the slice of 128 rows from `first` on and 32 of K from `begin` on.
template <typename T, bool ACROSS>
__device__ __forceinline__ void load_slice(unsigned char* to, const Side<T>& of, int64_t first, int64_t begin) {
    constexpr int kPieces = kSide * kSlice / kEight;
    #pragma unroll
    for (int i = 0; i < kPieces / kThreads; ++i) {
        const int piece = i * kThreads + static_cast<int>(threadIdx.x);
        const int row = ACROSS ? piece % (kSide / kEight) * kEight : piece / (kSlice / kEight);
        const int depth = ACROSS ? piece / (kSide / kEight) : piece % (kSlice / kEight) * kEight;
        const int count = neighbours_at<ACROSS>(of, first + row, begin + depth);
        const T* from = of.values + (first + row) * of.row_step + (begin + depth) * of.depth_step;
        unsigned char* place = to + place_of<ACROSS>(row, depth);
        if (of.by_eights) {
            sm80::copy_begun(place, count > 0 ? from : of.values, count * static_cast<int>(sizeof(T)));
            continue;
        }
        Pack<T, kEight> eight;
        #pragma unroll
        for (int j = 0; j < kEight; ++j) {
            eight.v[j] = j < count ? from[j * (ACROSS ? of.row_step : of.depth_step)] : from_float<T>(0.0f);
        }
        *reinterpret_cast<Pack<T, kEight>*>(place) = eight;
    }
}

// Loads this lane's fragment of 16 rows (for operand b two times 8) and 16 of K.
template <bool ACROSS, bool B>
__device__ __forceinline__ void load_fragment(uint32_t (&to)[4], const unsigned char* slice, int row, int depth) {
    const int lane = threadIdx.x % 32, inner = lane % 8, low = lane / 8 % 2, high = lane / 16;
    // The order of the four matrices differs: rows vary first for a, K for b.
    const int rows = B ? high : low, depths = B ? low : high;
    const int at_row = row + rows * 8 + (ACROSS ? 0 : inner), at_depth = depth + depths * 8 + (ACROSS ? inner : 0);
    sm80::load_matrices<ACROSS>(to, slice + place_of<ACROSS>(at_row, at_depth));
}

template <typename T, bool A_ACROSS, bool B_ACROSS>
__device__ __forceinline__ void multiply_slice(float (&sum)[4][4][4], const unsigned char* a, const unsigned char* b, int row,
                                               int column) {
    #pragma unroll
    for (int depth = 0; depth < kSlice; depth += 16) {
        uint32_t of_a[4][4], of_b[2][4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) load_fragment<A_ACROSS, false>(of_a[i], a, row + i * 16, depth);
        #pragma unroll
        for (int j = 0; j < 2; ++j) load_fragment<B_ACROSS, true>(of_b[j], b, column + j * 16, depth);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                sm80::add_product(sum[i][j], of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1], T{});
            }
        }
    }
}

// View of y and c from a tile's first element on.
template <typename T>
struct Result {
    T* y;
    const T* c;  // or null
    int64_t y_row, c_row, c_column;
    int64_t rows, columns;  // rows and columns from the tile's first element to the end
    float alpha, beta;

    __device__ __forceinline__ Result(const Forward& args, int64_t batch, int64_t row, int64_t column)
        : y(static_cast<T*>(args.y) + (batch * args.m + row) * args.n + column),
          c(static_cast<const T*>(args.c)),
          y_row(args.n), c_row(args.c_row), c_column(args.c_column),
          rows(args.m - row), columns(args.n - column),
          alpha(static_cast<float>(args.alpha)), beta(static_cast<float>(args.beta)) {
        if (c != nullptr) c += batch * args.c_batch + row * c_row + column * c_column;
    }

    // Stores two adjacent elements of a row.
    __device__ __forceinline__ void store(const float* sum, int row, int column) const {
        if (row >= rows || column >= columns) return;
        const bool are_two = column + 1 < columns;
        float first = alpha * sum[0], second = alpha * sum[1];
        if (c != nullptr) {
            const T* of = c + row * c_row + column * c_column;
            first = fmaf(beta, to_float(*of), first);
            if (are_two) second = fmaf(beta, to_float(of[c_column]), second);
        }
        T* to = y + row * y_row + column;
        if (are_two && y_row % 2 == 0) {
            *reinterpret_cast<Pack<T, 2>*>(to) = {from_float<T>(first), from_float<T>(second)};
        } else {
            to[0] = from_float<T>(first);
            if (are_two) to[1] = from_float<T>(second);
        }
    }
};

struct Tile {
    int64_t batch, row, column;  // indices of the tile's first element in the result
};

// Returns a tile by its number. Tiles are ordered in bands of kBand rows of tiles, down a band first, so that concurrent blocks
// cover a nearly square area.
__device__ __forceinline__ Tile tile_at(const Forward& args, int64_t number) {
    const int64_t m_tiles = (args.m + kSide - 1) / kSide, n_tiles = (args.n + kSide - 1) / kSide;
    const int64_t batch = number / (m_tiles * n_tiles), own = number % (m_tiles * n_tiles);
    const int64_t band = own / (kBand * n_tiles), within = own % (kBand * n_tiles);
    const int64_t rows = min(int64_t{kBand}, m_tiles - band * kBand);
    return {batch, (band * kBand + within % rows) * kSide, within / rows * kSide};
}

template <typename T, bool A_ACROSS, bool B_ACROSS>
__global__ void __launch_bounds__(kThreads, 2)
    matmul_half(const __grid_constant__ Forward args, bool a_by_eights, bool b_by_eights) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // this kernel is never called on other architectures
    __shared__ __align__(128) unsigned char ring[kStages][2][kTileBytes];
    const Tile tile = tile_at(args, blockIdx.x);
    const Side<T> a = side_of<T>(args.a, tile.batch * args.a_batch, args.m, args.k, args.a_row, args.a_depth, a_by_eights);
    const Side<T> b = side_of<T>(args.b, tile.batch * args.b_batch, args.n, args.k, args.b_column, args.b_depth, b_by_eights);
    const int stages = static_cast<int>((args.k + kSlice - 1) / kSlice);
    const auto load = [&](int stage) {
        if (stage < stages) {
            load_slice<T, A_ACROSS>(ring[stage % kStages][0], a, tile.row, int64_t{stage} * kSlice);
            load_slice<T, B_ACROSS>(ring[stage % kStages][1], b, tile.column, int64_t{stage} * kSlice);
        }
        sm80::copies_issued();
    };
    const int warp = threadIdx.x / 32, row = warp % 2 * kOfWarp[0], column = warp / 2 * kOfWarp[1];
    float sum[4][4][4] = {};
    #pragma unroll 1
    for (int stage = 0; stage < kStages - 1; ++stage) load(stage);
    for (int stage = 0; stage < stages; ++stage) {
        sm80::copies_done<kStages - 2>();
        __syncthreads();  // all warps are done with the previous stage, so its slot is free
        load(stage + kStages - 1);
        const auto& now = ring[stage % kStages];
        multiply_slice<T, A_ACROSS, B_ACROSS>(sum, now[0], now[1], row, column);
    }
    const int lane = threadIdx.x % 32;
    const Result<T> result(args, tile.batch, tile.row + row + lane / 4, tile.column + column + lane % 4 * 2);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            result.store(sum[i][j], i * 16, j * 8);
            result.store(sum[i][j] + 2, i * 16 + 8, j * 8);
        }
    }
#endif
}

}  // namespace kernelwright::matmul_half
