// The check after matmul_fp32x3's product: tiles for which two fp16 lost too much accuracy are recomputed (anew.cuh).
//
// If both operands are dense (see split_sm90.cuh), small values cannot lose too much accuracy. A quarter of the products of each sum are
// 2^15 or more, and rounding a float sum at each of them costs 2^-25.3 of it, more than the loss. But sums of dense operands can be short
// (anew.cuh) if they cancel. So each block tests samples from a few of its tiles, and checks all its tiles if the sums of a sample are
// small. If the operands are not dense, all tiles are checked.
#pragma once

#include "anew_tile.cuh"
#include "product_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kAnewWarps = kAnewThreads / 32;
static_assert(kTile == linear::kSide);

// A band: rows [first_row, first_row + rows) of a tile of y.
struct Band {
    int batch, rows;
    linear::Tile tile;
    int64_t first_row, first_column;
};

__device__ __forceinline__ Band band_of(const Product& p, int batch, const linear::Tile& tile, int first, int rows) {
    const int64_t first_row = static_cast<int64_t>(tile.of_x) * kTile + first;
    return {batch, static_cast<int>(min(int64_t{rows}, p.tiles.m - first_row)), tile, first_row,
            static_cast<int64_t>(tile.of_weight) * kTile};
}

struct AnewShared {
    Sample sample;
    float factors[2][kTile];  // largest factor of each row of a, for either half of its stages
    float scales[kAnewWarps];
    float sizes[kAnewWarps], largest[kAnewWarps];  // magnitudes of the tested sums, and of the largest products
    Followed followed[kAnewWarps];
    int lost, not_finite;
};

// Smallest product of two largest values relative to factors times scales, and thresholds below which sums may be short. Sums of dense
// operands exceed their threshold as soon as 32 products do not cancel.
constexpr float kProduct = static_cast<float>(int64_t{1} << 2 * kMargin);
constexpr float kSmall = 3.0f * kProduct, kSmallOfDense = 0.5f * kProduct;

__device__ __forceinline__ float scale_at(const Product& p, int batch, int64_t column) {
    return scale_of(-__ldcg(p.exponents + batch * p.b_rows + column));
}

// Stores the largest factor of each row of a band in shared memory.
__device__ __forceinline__ void find_factors(const Product& p, const Band& band, AnewShared& shared) {
    const int thread = threadIdx.x, row = thread % kTile, half = thread / kTile;
    const int first = static_cast<int>(band.first_row % kTile);
    const unsigned char* packed = p.a + band.batch * p.a_bytes + static_cast<int64_t>(band.tile.of_x) * p.tiles.stages * kPackedBytes;
    float factor = 0.0f;
    if (row >= first && row < first + band.rows) {
        #pragma unroll 16
        for (int i = p.plain.a.first_stage(band.tile.of_x); i < p.plain.a.past_stage(band.tile.of_x); ++i) {
            const auto* factors = reinterpret_cast<const float*>(packed + int64_t{i} * kPackedBytes + kOperandBytes);
            factor = fmaxf(factor, __ldcg(factors + half * kTile + row));
        }
    }
    shared.factors[half][row] = factor;
}

// Stores the largest scale of the band's columns, per warp.
__device__ __forceinline__ void find_scales(const Product& p, const Band& band, AnewShared& shared) {
    const int thread = threadIdx.x;
    float scale = scale_at(p, band.batch, band.first_column + thread % kTile);
    for (int lanes = 16; lanes > 0; lanes /= 2) scale = fmaxf(scale, __shfl_xor_sync(0xffffffffu, scale, lanes));
    if (thread % 32 == 0) shared.scales[thread / 32] = scale;
    if (thread == 0) shared.lost = shared.not_finite = 0;
}

// Returns the magnitudes of a row's sums over COLUMNS columns, per lane of a warp: largest (x) and total (y).
template <int COLUMNS>
__device__ __forceinline__ float2 sizes_of(const Product& p, const Band& band, int i) {
    const float* y = p.out.y + (static_cast<int64_t>(band.batch) * p.tiles.m + band.first_row + i) * p.tiles.n;
    float2 sizes = {0.0f, 0.0f};
    #pragma unroll
    for (int j = threadIdx.x % 32; j < COLUMNS; j += 32) {
        const int64_t column = band.first_column + j;
        const float size = i < band.rows && column < p.tiles.n ? fabsf(__ldcg(y + column)) : 0.0f;
        sizes.x = fmaxf(sizes.x, size), sizes.y += size;
    }
    return sizes;
}

// Result of testing a band's sums.
struct Seen {
    bool is_lost;   // small values of a row may have lost too much accuracy
    bool is_small;  // the band's sums may be short (anew.cuh)
};

// Tests a band's sums. `is_first` is set for the first band of its rows.
template <class Meet>
__device__ __forceinline__ Seen look_at(const Product& p, const Band& band, bool is_first, float small, AnewShared& shared,
                                        const Meet& meet) {
    constexpr int kRows = kTile / kAnewWarps;  // rows per warp
    if (is_first) find_factors(p, band, shared);
    find_scales(p, band, shared);
    meet();
    float scale = 0.0f;
    for (int i = 0; i < kAnewWarps; ++i) scale = fmaxf(scale, shared.scales[i]);
    const float none = factor_of(kNoValue);
    const float products = needed_for(2.0f * static_cast<float>(p.plain.a.depth)) * (1 << kMargin) * fabsf(p.out.alpha) * scale;  // for a factor of 1
    const int warp = threadIdx.x / 32, first = warp * kRows, of_tile = static_cast<int>(band.first_row % kTile);
    const auto factor_at = [&](int i) {
        const float factor = i < band.rows ? fmaxf(shared.factors[0][of_tile + i], shared.factors[1][of_tile + i]) : 0.0f;
        return factor > none ? factor : 0.0f;
    };
    const auto columns = static_cast<float>(min(int64_t{kTile}, p.tiles.n - band.first_column));
    const float share = share_of(columns);
    float largest[kRows];  // a quarter of the columns nearly always shows that the sums are large enough
    #pragma unroll
    for (int i = 0; i < kRows; ++i) largest[i] = sizes_of<32>(p, band, first + i).x;
    unsigned others = 0;
    float size = 0.0f, factors = 0.0f;
    #pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const float factor = factor_at(first + i);
        size += largest[i], factors += factor;
        others |= !__any_sync(0xffffffffu, largest[i] * share >= factor * products) << i;
    }
    const float of_column = scale_at(p, band.batch, band.first_column + threadIdx.x % 32);
    size = warp_sum(size), factors = warp_sum(factors * of_column);
    if (threadIdx.x % 32 == 0) shared.sizes[warp] = size, shared.largest[warp] = factors;
    constexpr int kAtOnce = 4;
    for (int from = 0; from < kRows; from += kAtOnce) {
        const unsigned asked = others >> from & ((1u << kAtOnce) - 1);
        if (asked == 0) continue;
        float2 sizes[kAtOnce];
        #pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sizes[i] = sizes_of<kTile>(p, band, first + from + i);
        bool lost = false;
        #pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            for (int lanes = 16; lanes > 0; lanes /= 2) {
                sizes[i].x = fmaxf(sizes[i].x, __shfl_xor_sync(0xffffffffu, sizes[i].x, lanes));
                sizes[i].y += __shfl_xor_sync(0xffffffffu, sizes[i].y, lanes);
            }
            const bool is_small = fmaxf(sizes[i].x * share, sizes[i].y / columns) < factor_at(first + from + i) * products;
            lost = lost || (is_small && (asked >> i & 1) != 0);
        }
        if (!lost) continue;
        shared.lost = 1;
        break;
    }
    meet();
    size = factors = 0.0f;
    for (int i = 0; i < kAnewWarps; ++i) size += shared.sizes[i], factors += shared.largest[i];
    return {shared.lost != 0, size < small * fabsf(p.out.alpha) * factors};
}

// Returns true if all sums of a band from the tensor cores are finite. Then no infinity or NaN has met a zero either.
template <class Meet>
__device__ __forceinline__ bool are_finite(const Product& p, const Band& band, AnewShared& shared, const Meet& meet) {
    float all = 0.0f;  // NaN if any sum is not finite
    #pragma unroll 4
    for (int i = threadIdx.x / 32; i < band.rows; i += kAnewWarps) {
        const float* y = p.out.y + (static_cast<int64_t>(band.batch) * p.tiles.m + band.first_row + i) * p.tiles.n;
        #pragma unroll
        for (int j = threadIdx.x % 32; j < kTile; j += 32) {
            if (band.first_column + j < p.tiles.n) all = fmaf(__ldcg(y + band.first_column + j), 0.0f, all);
        }
    }
    if (all != 0.0f) shared.not_finite = 1;
    meet();
    return shared.not_finite == 0;
}

// Checks a band of up to 16 * ROWS rows and recomputes it if it may have lost too much accuracy. All 256 threads call it, with `meet` as
// their barrier. `sparse` is set unless both operands are dense. Bands of the same rows share `spans`.
template <int ROWS = 8, class Meet>
__device__ __forceinline__ void hold(const Product& p, const Band& band, bool is_first, bool sparse, AnewShared& shared, Spans& spans,
                                     const Meet& meet) {
    if (is_first && threadIdx.x == 0) spans.known = kNotKnown;
    const Seen seen = look_at(p, band, is_first, sparse ? kSmall : kSmallOfDense, shared, meet);
    meet();  // all threads have read the result, so shared memory is free
    bool lost = sparse && seen.is_lost;
    if (!lost && !seen.is_small) return;
    const Operand &of_a = p.plain.a, &of_b = p.plain.b;
    const int64_t past = band.first_row + band.rows;
    const Plain a = {of_a.values + band.batch * of_a.batch_step, past, of_a.depth, of_a.row_step, of_a.depth_step, of_a.part};
    const Plain b = {of_b.values + band.batch * of_b.batch_step, of_b.rows, of_b.depth, of_b.row_step, of_b.depth_step, of_b.part};
    const bool shared_out = p.cut.tiles <= 2 * static_cast<int>(gridDim.x);
    lost = lost || are_short(shared.sample, shared.followed, a, b, band.first_row, band.first_column, short_below(p.all, shared_out),
                             shared_out, meet);
    if (!lost) return;
    const bool zeros_count = !are_finite(p, band, shared, meet);
    float all[8][8] = {};
    sum_anew<ROWS>(all, spans, a, b, band.first_row, band.first_column, zeros_count, meet);
    store_tile(p.out, all, p.tiles.m, p.tiles.n, p.y_part, band.batch, band.first_row, band.first_column, past);
}

// Consecutive tiles of a block, row by row, so that a whole row of tiles shares what is known about the rows of a.
struct Tiles {
    int first, past;

    __device__ __forceinline__ explicit Tiles(const Product& p) {
        const int share = (p.cut.tiles - 1) / static_cast<int>(gridDim.x) + 1;
        first = static_cast<int>(min(int64_t{share} * blockIdx.x, int64_t{p.cut.tiles}));
        past = min(share, p.cut.tiles - first) + first;
    }
    __device__ __forceinline__ static Band band_at(const Product& p, int i) {
        const int row = i / p.tiles.n_tiles();  // row of tiles, counted over all matrices
        const linear::Tile tile = {row % p.tiles.m_tiles(), i % p.tiles.n_tiles()};
        return band_of(p, row / p.tiles.m_tiles(), tile, 0, kTile);
    }
};

// A warp's sample of one of the block's tiles, four rows by 32 columns: tests whether the sums of dense operands are small. The threshold
// is computed before the product ends, from one scale per row: that of any half stage.
struct Glance {
    static constexpr int kRows = 4;
    const float* at;
    int64_t row_step;
    bool has_column;
    float needed;  // threshold of the total magnitude; 0 if there is nothing to test

    __device__ __forceinline__ Glance(const Product& p, const Tiles& tiles) : at(p.out.y), row_step(0), has_column(false), needed(0.0f) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int number = tiles.first + (tiles.past - tiles.first) * warp / kAnewWarps;
        const Band band = Tiles::band_at(p, number);
        const int64_t column = band.first_column + lane;
        const int stage = p.plain.a.first_stage(band.tile.of_x), stages = p.plain.a.past_stage(band.tile.of_x) - stage;
        if (number >= tiles.past || stages <= 0 || !is_there(p.y_part, band.tile.of_x, band.tile.of_weight)) return;
        const int row = band.rows / kRows;
        const int64_t any = static_cast<int64_t>(band.tile.of_x) * p.tiles.stages + stage + number % stages;
        const auto* factors = reinterpret_cast<const float*>(p.a + band.batch * p.a_bytes + any * kPackedBytes + kOperandBytes);
        const float none = factor_of(kNoValue);
        float all = 0.0f;
        #pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const float factor = __ldcg(factors + i * row);
            all += factor > none ? factor : 0.0f;
        }
        const bool is_one = column < p.tiles.n;
        needed = kSmallOfDense * fabsf(p.out.alpha) * all * warp_sum(is_one ? scale_at(p, band.batch, column) : 0.0f);
        if (!is_one) return;
        has_column = true;
        row_step = int64_t{row} * p.tiles.n;
        at = p.out.y + (static_cast<int64_t>(band.batch) * p.tiles.m + band.first_row) * p.tiles.n + column;
    }

    __device__ __forceinline__ bool is_small() const {
        float size = 0.0f;
        #pragma unroll
        for (int i = 0; i < kRows; ++i) size += fabsf(__ldcg(at + i * row_step));
        return warp_sum(has_column ? size : 0.0f) < needed;
    }
};

// Returns true if a warp's sums of dense operands are small in the first 32 columns of a tile, before their columns are scaled back.
// `factors` are those of a thread's two rows for any half stage.
__device__ __forceinline__ bool are_small(const float (&sum)[64], const float (&factors)[2]) {
    constexpr int kOfRow = 8;
    constexpr float kNeeded = kSmallOfDense / (1 << kMargin) * kOfRow;  // for a factor of 1; columns are not scaled back yet
    const float none = factor_of(kNoValue);
    float size = 0.0f;
    #pragma unroll
    for (int i = 0; i < 2 * kOfRow; ++i) size += fabsf(sum[i]);
    return warp_sum(size) < kNeeded * warp_sum((factors[0] > none ? factors[0] : 0.0f) + (factors[1] > none ? factors[1] : 0.0f));
}

// Checks the sums after the product. Returns at once if both operands are dense, which is known before the product ends, and the sampled
// sums are not small.
__global__ void __launch_bounds__(kAnewThreads, 1) matmul_anew(const __grid_constant__ Product p) {
    const bool sparse = are_sparse(p.plain.a, p.plain.b, __ldcg(p.plain.b.sparse));
    const Tiles tiles(p);
    const Glance glance(p, tiles);
    await_earlier();
    if (!sparse && !__syncthreads_or(glance.is_small())) return;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ AnewShared shared;
    int found = -1;
    for (int i = tiles.first; i < tiles.past; ++i) {
        const Band band = Tiles::band_at(p, i);
        if (!is_there(p.y_part, band.tile.of_x, band.tile.of_weight)) continue;
        const int row = i / p.tiles.n_tiles();
        hold(p, band, row != found, sparse, shared, *reinterpret_cast<Spans*>(memory), [] { __syncthreads(); });
        found = row;
    }
}

inline cudaError_t compute_anew(const Product& p, int64_t sms, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(std::min(sms, int64_t{p.cut.tiles}));
    return launched_anew(matmul_anew, blocks, stream, p);
}

}  // namespace kernelwright::matmul
