// What two fp16 for a float lose, and a tile that is computed anew in float arithmetic where it shows: of small values beside
// large ones, and where float sums would round next to nothing.
//
// Small values.
//
// Values that share a scale are split on a grid of 2^-24, where the largest of them is 2^13 to 2^14: one below 2^-2, 2^-16 of the
// largest, keeps fewer than 22 bits. Beside what the larger ones give that is nothing, unless they meet zeros, or values that are
// small, of the other operand. It is 2^-25 at most, times the other's value, 2^14 at most: of n such products 2^-11 * sqrt(n) in
// the root mean square, as far as what is lost has either sign.
//
// Where a row's sums, in the root of their squares' mean, are not 2^26.5 times what all their products may have lost, the tile is
// computed anew. Elsewhere that is at most 2^-26.5 of the row in this tile, below half of the 2^-25.3 that rounding the results to
// floats costs.
//
// Short sums. Of every product two fp16 and the tensor cores lose some 2^-23, a float sum 2^-25.3 of what it has come to when the
// product is added. So its error is below half of this one where it has hardly come to more than single products: because there
// are few, or because they cancel as they are added, one after the other. A sample of a tile's sums is followed in that order to
// tell. It shows nowhere else, and of sums that are large beside the largest products nothing has to be followed.
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kAnewThreads = linear::kPlainThreads;
constexpr int kAnewDepth = 128;  // that is added up by itself

// What a row's sums have to be where so many of their products may have lost something, of operands whose largest values are 2^13
// to 2^14: 2^(26.5 - 11) times the root.
__host__ __device__ __forceinline__ float needed_for(float products) { return 46341.0f * sqrtf(products); }

// What the largest of so many sums says of the root of their squares' mean: 1 / sqrt(columns) of it, not above.
__device__ __forceinline__ float share_of(float columns) { return 0.97f * rsqrtf(columns); }

// The sums of a tile in float arithmetic, by kAnewThreads that meet by `meet`.
template <class Meet>
__device__ __forceinline__ void sum_anew(float (&all)[8][8], Slices& slices, const Plain& a, const Plain& b, int64_t first_row,
                                         int64_t first_column, const Meet& meet) {
    const int64_t end = min(a.end_in(first_row), b.end_in(first_column));
    for (int64_t begin = max(a.begin_in(first_row), b.begin_in(first_column)); begin < end; begin += kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, a, b, first_row, first_column, begin, min(begin + kAnewDepth, end), meet);
        #pragma unroll
        for (int i = 0; i < 64; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8];
    }
}

constexpr int kFollowers = 16;  // rows of a tile, and columns, whose sums are followed
constexpr int kFollowed = 128;  // products of a sum at the most, without those of 0
static_assert(kFollowers * kFollowers == kAnewThreads);

__device__ __forceinline__ float warp_sum(float mine) {
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, lanes);
    return mine;
}

// What partial sums are in the mean, of single products: below, a float sum's error is less than half of this one. `all`: with
// lo * lo; `shared_out`: where an SGEMM shares the depth out, so that its sums are shorter.
__device__ __forceinline__ float short_below(bool all, bool shared_out) { return all ? 1.75f : shared_out ? 4.5f : 3.0f; }

// Of so few of all products that are not 0 the tensor cores' sums are taken out one by one, as those of floats, which such an SGEMM adds
// up in parts.
constexpr float kSparse = 1.0f / 64;

struct Followed {
    float sums, products;  // their sizes
    float steps, values;   // of the depth; products that are not 0

    __device__ __forceinline__ void add(const Followed& other) {
        sums += other.sums, products += other.products, steps += other.steps, values += other.values;
    }
};

// Which of a tile's `rows` is follower i's, in no even steps.
__device__ __forceinline__ int followed_row(int i, int rows) { return (i * rows + i % 8 * (rows / 8)) / kFollowers; }

// A thread's sum over the first `depth` of what `of_a` and `of_b` have, until all sums of its warp together are not short. None of these
// branches: where each load has one, it is waited for.
template <class OfA, class OfB>
__device__ __forceinline__ Followed follow(int depth, float short_below, const OfA& of_a, const OfB& of_b) {
    constexpr int kAtOnce = 32;
    constexpr float kMargin = 1.25f;  // for what is chance
    constexpr unsigned kAll = 0xffffffffu;
    Followed all = {0.0f, 0.0f, 0.0f, 0.0f};
    float sum = 0.0f;
    for (int first = 0; __any_sync(kAll, first < depth && all.values < kFollowed); first += kAtOnce) {
        float a[kAtOnce], b[kAtOnce];
        #pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int at = max(min(first + i, depth - 1), 0);
            a[i] = of_a(at), b[i] = of_b(at);
        }
        #pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const bool is_one = first + i < depth && a[i] != 0.0f && b[i] != 0.0f;
            sum = is_one ? fmaf(a[i], b[i], sum) : sum;
            all.add({is_one ? fabsf(sum) : 0.0f, is_one ? fabsf(a[i] * b[i]) : 0.0f, 0.0f, is_one ? 1.0f : 0.0f});
        }
        all.steps += static_cast<float>(max(min(depth - first, kAtOnce), 0));
        if (warp_sum(all.sums) > kMargin * short_below * warp_sum(all.products)) break;
    }
    return all;
}

// Whether a tile's sums are short, of which each of kAnewThreads, which meet by `meet`, has followed one.
template <class Meet>
__device__ __forceinline__ bool are_short(Followed (&of_warps)[kAnewThreads / 32], Followed mine, bool all, bool shared_out, const Meet& meet) {
    mine = {warp_sum(mine.sums), warp_sum(mine.products), warp_sum(mine.steps), warp_sum(mine.values)};
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    meet();
    Followed tile = {0.0f, 0.0f, 0.0f, 0.0f};
    for (const Followed& of : of_warps) tile.add(of);
    meet();  // all know: the memory is free
    if (tile.sums < short_below(all, shared_out) * tile.products) return true;
    return shared_out && tile.values > 0.0f && tile.values < kSparse * tile.steps;
}

// The same of a tile of two operands.
template <class Meet>
__device__ __forceinline__ bool are_short(Followed (&of_warps)[kAnewThreads / 32], const Plain& a, const Plain& b, int64_t first_row,
                                          int64_t first_column, bool all, bool shared_out, const Meet& meet) {
    constexpr int64_t kMost = 1 << 30;
    const int thread = threadIdx.x, rows = static_cast<int>(min(int64_t{kSide}, a.rows - first_row));
    const int columns = static_cast<int>(min(int64_t{kSide}, b.rows - first_column));
    const int64_t row = first_row + followed_row(thread / kFollowers, rows);
    const int64_t column = first_column + followed_row(thread % kFollowers, columns);
    const int64_t begin = min(max(begin_of(a, row), begin_of(b, column)), a.depth - 1), end = min(end_of(a, row), end_of(b, column));
    const float* of_a = a.values + row * a.row_step + begin * a.depth_step;
    const float* of_b = b.values + column * b.row_step + begin * b.depth_step;
    const Followed mine = follow(static_cast<int>(min(end - begin, kMost)), short_below(all, shared_out),
                                 [&](int depth) { return __ldg(of_a + depth * a.depth_step); },
                                 [&](int depth) { return __ldg(of_b + depth * b.depth_step); });
    return are_short(of_warps, mine, all, shared_out, meet);
}

}  // namespace kernelwright::matmul
