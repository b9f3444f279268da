// Bounds of the accuracy that splitting each float into two fp16 loses. A tile is recomputed in float arithmetic where the loss could
// matter: with small values next to large ones, and where a float sum would hardly round.
//
// Small values.
//
// Values that share a scale are split on a grid of 2^-24, with the largest of them in [2^13, 2^14). A value below 2^-2, 2^-16 of the
// largest, keeps fewer than 22 bits. That is negligible next to the larger values, unless those meet zeros or small values of the other
// operand. The loss is at most 2^-25 times the other value, which is at most 2^14. For n such products of random sign that is
// 2^-11 * sqrt(n) rms.
//
// If the rms of a row's sums is not 2^26.5 times what all their products may have lost, the tile is recomputed. A kept tile has lost at
// most 2^-26.5 of the row, less than half of the 2^-25.3 that rounding the results to float costs.
//
// Short sums.
//
// Two fp16 and the tensor cores lose some 2^-23 of each product. A float sum loses 2^-25.3 of its running value at each addition. So a
// float sum is more than twice as accurate if its running value hardly exceeds single products: because there are few products, or
// because they cancel one after the other. A sample of a tile's sums is followed in that order to find out. Sums that are large
// compared to the largest products need no such test.
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kAnewThreads = linear::kPlainThreads;
constexpr int kAnewDepth = 128;  // depth that is summed separately before it is added

// Rms that a row's sums need if `products` of their products may have lost something, for operands whose largest values lie in
// [2^13, 2^14): 2^(26.5 - 11) * sqrt(products).
__host__ __device__ __forceinline__ float needed_for(float products) { return 46341.0f * sqrtf(products); }

// Lower bound of the rms of `columns` sums as a share of the largest: 1 / sqrt(columns), with some margin.
__device__ __forceinline__ float share_of(float columns) { return 0.97f * rsqrtf(columns); }

constexpr int kFollowers = 16;    // rows and columns of a tile whose sums are followed
constexpr int kFollowedStep = 64;  // depths per step
constexpr int kFollowed = 256;    // maximum nonzero products per followed sum, on average
static_assert(kFollowers * kFollowers == kAnewThreads);

// Threshold of the mean running sum over the mean product. Below it a float sum's error is less than half of that of the split. `all`
// is set if lo * lo is included, `shared_out` if an SGEMM would use split-K, whose sums are shorter.
__device__ __forceinline__ float short_below(bool all, bool shared_out) { return all ? 1.75f : shared_out ? 4.5f : 3.0f; }

// Share of nonzero products below which sums count as short against a split-K SGEMM. With so few products, the tensor cores' partial
// sums are single products, added one by one like floats, while a split-K SGEMM adds them in parts.
constexpr float kSparse = 1.0f / 64;

__device__ __forceinline__ float warp_sum(float mine) {
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, lanes);
    return mine;
}

struct Followed {
    float sums, products;  // total magnitudes of running sums and of products
    float values;          // number of nonzero products

    __device__ __forceinline__ void add(const Followed& other) {
        sums += other.sums, products += other.products, values += other.values;
    }
};

// Returns the row of follower i among a tile's `rows`, unevenly spaced.
__device__ __forceinline__ int followed_row(int i, int rows) { return (i * rows + i % 8 * (rows / 8)) / kFollowers; }

// Values of the followers' rows and columns for one step.
struct Sample {
    float of_a[kFollowers][kFollowedStep + 1], of_b[kFollowers][kFollowedStep + 1];
};

// A thread's share of one operand's sample, contiguous along rows or along the depth.
struct SampleShare {
    static constexpr int kCount = kFollowers * kFollowedStep / kAnewThreads;
    bool by_rows;
    float v[kCount];

    __device__ __forceinline__ int follower(int i) const {
        const int at = i * kAnewThreads + static_cast<int>(threadIdx.x);
        return by_rows ? at % kFollowers : at / kFollowedStep;
    }
    __device__ __forceinline__ int depth(int i) const {
        const int at = i * kAnewThreads + static_cast<int>(threadIdx.x);
        return by_rows ? at / kFollowers : at % kFollowedStep;
    }
    template <class Of>
    __device__ __forceinline__ void load(const Of& of, int64_t begin, int64_t end) {
        #pragma unroll
        for (int i = 0; i < kCount; ++i) v[i] = begin + depth(i) < end ? of(follower(i), begin + depth(i)) : 0.0f;
    }
    __device__ __forceinline__ void put(float (&to)[kFollowers][kFollowedStep + 1]) const {
        #pragma unroll
        for (int i = 0; i < kCount; ++i) to[follower(i)][depth(i)] = v[i];
    }
};

// Returns true if the running sums of a tile over depths [begin, end) are shorter than `below`, their threshold relative to single
// products. All kAnewThreads call it, with `meet` as their barrier. Each thread follows one sum until the sample as a whole is decided.
// `of_a(follower, depth)` and `of_b` return the values.
// values.
template <class OfA, class OfB, class Meet>
__device__ __forceinline__ bool are_short(Sample& sample, Followed (&of_warps)[kAnewThreads / 32], int64_t begin, int64_t end, float below,
                                          bool shared_out, SampleShare a, const OfA& of_a, SampleShare b, const OfB& of_b,
                                          const Meet& meet) {
    constexpr float kMargin = 1.25f;  // margin against sampling noise
    constexpr int kMany = kFollowedStep / 2;
    const int thread = threadIdx.x, lane = thread % 32;
    const float *const own_a = sample.of_a[thread / kFollowers], *const own_b = sample.of_b[thread % kFollowers];
    const float *const first = sample.of_a[thread / 32 * 2], *const second = sample.of_a[thread / 32 * 2 + 1];  // the warp's two rows
    Followed mine = {0.0f, 0.0f, 0.0f}, all = mine;
    float sum = 0.0f, steps = 0.0f;
    const auto add = [&](int i) {
        const float product = own_a[i] * own_b[i];
        sum = fmaf(own_a[i], own_b[i], sum);
        mine.add({product != 0.0f ? fabsf(sum) : 0.0f, fabsf(product), product != 0.0f ? 1.0f : 0.0f});  // selected without a branch
    };
    const auto follow = [&](SampleShare& a, SampleShare& b) {  // returns true once decided
        if (begin >= end) return true;
        a.put(sample.of_a), b.put(sample.of_b);
        meet();
        steps += static_cast<float>(min(end - begin, int64_t{kFollowedStep}));
        a.load(of_a, begin + 2 * kFollowedStep, end), b.load(of_b, begin + 2 * kFollowedStep, end);
        begin += kFollowedStep;
        unsigned values[kFollowedStep / 32], count = 0;
        #pragma unroll
        for (int i = 0; i < kFollowedStep / 32; ++i) {
            values[i] = __ballot_sync(0xffffffffu, first[i * 32 + lane] != 0.0f || second[i * 32 + lane] != 0.0f);
            count += __popc(values[i]);
        }
        if (count > kMany) {
            #pragma unroll 16
            for (int i = 0; i < kFollowedStep; ++i) add(i);
        } else {
            #pragma unroll
            for (int i = 0; i < kFollowedStep / 32; ++i) {
                for (unsigned left = values[i]; left != 0; left &= left - 1) add(i * 32 + __ffs(static_cast<int>(left)) - 1);
            }
        }
        const Followed of_warp = {warp_sum(mine.sums), warp_sum(mine.products), warp_sum(mine.values)};
        if (lane == 0) of_warps[thread / 32] = of_warp;
        meet();
        all = {0.0f, 0.0f, 0.0f};
        for (const Followed& of : of_warps) all.add(of);
        return all.sums > kMargin * below * all.products || all.values > kFollowed * kAnewThreads;
    };
    SampleShare next_a = a, next_b = b;  // samples of two steps are in flight
    a.load(of_a, begin, end), b.load(of_b, begin, end);
    next_a.load(of_a, begin + kFollowedStep, end), next_b.load(of_b, begin + kFollowedStep, end);
    while (!follow(a, b) && !follow(next_a, next_b)) {
    }
    if (all.sums < below * all.products) return true;
    return shared_out && all.values > 0.0f && all.values < kSparse * kAnewThreads * steps;
}

__device__ __forceinline__ float value_at(const Plain& of, int64_t row, int64_t depth) {
    return is_there(of.part, row, depth) ? __ldg(of.values + row * of.row_step + depth * of.depth_step) : 0.0f;
}

// Returns true if the running sums of a tile of the operands a and b are shorter than `below`.
template <class Meet>
__device__ __forceinline__ bool are_short(Sample& sample, Followed (&of_warps)[kAnewThreads / 32], const Plain& a, const Plain& b,
                                          int64_t first_row, int64_t first_column, float below, bool shared_out, const Meet& meet) {
    const int rows = static_cast<int>(min(int64_t{kSide}, a.rows - first_row));
    const int columns = static_cast<int>(min(int64_t{kSide}, b.rows - first_column));
    const auto share_of = [](const Plain& of) { return SampleShare{of.row_step == 1 && of.depth_step != 1}; };
    return are_short(
        sample, of_warps, max(a.begin_in(first_row), b.begin_in(first_column)), min(a.end_in(first_row), b.end_in(first_column)), below,
        shared_out, share_of(a), [&](int i, int64_t depth) { return value_at(a, first_row + followed_row(i, rows), depth); }, share_of(b),
        [&](int i, int64_t depth) { return value_at(b, first_column + followed_row(i, columns), depth); }, meet);
}

}  // namespace kernelwright::matmul
