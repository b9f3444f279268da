// Schedule of a persistent grid: which stages of which tiles a block takes, and how blocks that share a tile join their sums.
//
// Whole tiles would leave SMs idle in the last wave. So the stages of the first tiles, up to two waves of them, are distributed
// evenly (Osama et al., "Stream-K", 2023). A few consecutive blocks then share each streamed tile, and the last one to finish
// adds up their sums. Very few and deep tiles use split-K instead, with equal parts that a second kernel adds up. Either way sums
// are added in the order of the depth, so results are deterministic.
#pragma once

#include <algorithm>

#include "../../linear_fp32x3/csrc/product_sm90.cuh"

namespace kernelwright::matmul {

using linear::ceil_div;
using linear::kMostBlocks;

constexpr int64_t kMostParts = 64;
constexpr int kWarps = 4 * linear::kConsumers;  // warps that hold a tile's sums
constexpr int kWarpSums = 64 * 32;              // maximum sums per warp

struct Schedule {
    int tiles, stages;
    int parts;     // split-K parts of every tile
    int streamed;  // number of streamed tiles, the first ones; 0 if parts > 1

    __host__ __device__ int units() const { return tiles * parts; }
    // A part has stages [begin_of(part), begin_of(part + 1)).
    __device__ __forceinline__ int begin_of(int part) const {
        return static_cast<int>(static_cast<int64_t>(stages) * part / parts);
    }
    // A block has the streamed stages [share_of(block), share_of(block + 1)).
    __device__ __forceinline__ int64_t all_streamed() const { return static_cast<int64_t>(streamed) * stages; }
    __device__ __forceinline__ int share_of(int block) const {
        return static_cast<int>(all_streamed() * block / gridDim.x);
    }
    __device__ __forceinline__ int block_of(int64_t stage) const {
        return static_cast<int>(((stage + 1) * gridDim.x - 1) / all_streamed());
    }
};

// A work unit: stages [begin, end) of a tile. `part` is the split-K part of a tile that is not streamed.
struct Unit {
    int tile, part, begin, end;
};

// The units of this block, one after the other.
struct Units {
    int at, end;  // range of streamed stages
    int number;   // next unit that is not streamed

    __device__ __forceinline__ explicit Units(const Schedule& s)
        : at(s.streamed > 0 ? s.share_of(blockIdx.x) : 0), end(s.streamed > 0 ? s.share_of(blockIdx.x + 1) : 0),
          number(s.streamed + blockIdx.x) {}

    __device__ __forceinline__ bool next(const Schedule& s, Unit& unit) {
        if (at < end) {
            unit.tile = at / s.stages;
            const int first = unit.tile * s.stages;
            unit.begin = at - first;
            at = min(end, first + s.stages);
            unit.end = at - first;
            return true;
        }
        if (number >= s.units()) return false;
        unit.tile = number / s.parts;
        unit.part = number % s.parts;
        unit.begin = s.begin_of(unit.part), unit.end = s.begin_of(unit.part + 1);
        number += gridDim.x;
        return true;
    }
};

template <int N>
__device__ __forceinline__ void add_fours(float (&sum)[N], const float4* from) {
    #pragma unroll
    for (int i = 0; i < N / 4; ++i) {
        const float4 four = __ldcg(from + i * 32);
        sum[4 * i] += four.x, sum[4 * i + 1] += four.y, sum[4 * i + 2] += four.z, sum[4 * i + 3] += four.w;
    }
}

// Returns true if the warp's sums cover all stages of the tile. For a streamed tile that is shared, sums are left in `partial`
// [blocks, 2, warps, kWarpSums], and the last warp to finish adds them up. `ended` [streamed, warps] counts the finished warps.
template <int N>
__device__ __forceinline__ bool joined(const Schedule& s, float (&sum)[N], const Unit& unit, float* partial, int* ended) {
    if (unit.tile >= s.streamed || unit.end - unit.begin == s.stages) return true;
    const int64_t first_stage = static_cast<int64_t>(unit.tile) * s.stages;
    const int first = s.block_of(first_stage), last = s.block_of(first_stage + s.stages - 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = blockIdx.x;
    // A block has at most two shared tiles: one begun by an earlier block and one that it begins.
    const auto sums_of = [&](int block) {
        const int64_t place = int64_t{block} * 2 + (block == first ? 1 : 0);
        return reinterpret_cast<float4*>(partial + (place * kWarps + warp) * kWarpSums) + lane;
    };
    float4* to = sums_of(own);
    #pragma unroll
    for (int i = 0; i < N / 4; ++i) {
        __stcg(to + i * 32, float4{sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]});
    }
    __threadfence();
    __syncwarp();
    int before = lane == 0 ? atomicAdd(ended + unit.tile * kWarps + warp, 1) : 0;
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before < last - first) return false;
    __threadfence();
    if (last == first + 1) {  // two sums are the same in either order
        add_fours(sum, sums_of(own == first ? last : first));
        return true;
    }
    #pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = 0.0f;
    for (int block = first; block <= last; ++block) add_fours(sum, sums_of(block));
    return true;
}

constexpr double kStart = 3.0;  // fixed cost of a tile, in stages

// Distribution of tiles, and its modelled time in stages of a tile (1 us on an H200).
struct Cut {
    int64_t parts, streamed;
    int64_t blocks;  // number of blocks that share the streamed stages
    double cost;

    int64_t counters() const { return streamed * kWarps; }
    int64_t sums() const { return blocks * 2 * kWarps * kWarpSums; }
    Schedule schedule(int64_t tiles, int64_t stages) const {
        return {static_cast<int>(tiles), static_cast<int>(stages), static_cast<int>(parts), static_cast<int>(streamed)};
    }
    unsigned grid(int64_t tiles, int64_t sms) const {
        return static_cast<unsigned>(streamed > 0 ? blocks : std::min(sms, tiles * parts));
    }
};

// Chooses the fastest schedule by the model. `has_parts` permits split-K. Blocks with even shares are at different depths at any
// time, so they reuse each other's loads only if the operands stay in L2 (`fits`).
inline Cut cut_of(int64_t tiles, int64_t stages, int64_t elements, int64_t sms, bool has_parts, bool fits) {
    constexpr double kLaunch = 4.0, kBytesOfStage = 3.3e6, kStore = 1.5;
    const auto whole = [&](int64_t count) { return static_cast<double>(ceil_div(count, sms)); };
    const double depth = static_cast<double>(stages);
    Cut best = {1, 0, 0, whole(tiles) * (depth + kStart)};
    const auto take = [&best](const Cut& other) { best = other.cost < best.cost ? other : best; };
    const auto join = [](int64_t parts) { return kStore * static_cast<double>(parts); };
    // Several blocks per tile, but few, since one of them adds up all sums.
    for (int64_t of_tile = 2; of_tile <= std::min({sms / tiles, stages, int64_t{8}}); ++of_tile) {
        take({1, tiles, tiles * of_tile, static_cast<double>(ceil_div(stages, of_tile)) + kStart + join(of_tile)});
    }
    // An even share per SM, which may begin and end within a tile.
    const int64_t streamed = tiles < sms ? tiles : tiles % sms + sms;
    if (fits && tiles % sms > 0 && streamed * stages >= sms && streamed * stages < kMostBlocks) {
        const double share = static_cast<double>(streamed) * depth / static_cast<double>(sms);
        const double rest = whole(tiles - streamed) * (depth + kStart);
        take({1, streamed, sms, rest + share + kStart + join(2 + ceil_div(sms, streamed))});
    }
    for (int64_t parts = 2; has_parts && parts <= std::min(kMostParts, stages); ++parts) {
        const double added = kLaunch + 8.0 * static_cast<double>(parts * elements) / kBytesOfStage;
        take({parts, 0, 0, whole(tiles * parts) * (static_cast<double>(ceil_div(stages, parts)) + kStart) + added});
    }
    return best;
}

}  // namespace kernelwright::matmul
