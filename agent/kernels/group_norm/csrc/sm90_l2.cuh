// Forward of large groups with the second read from L2: simpler than sm90_held.cuh, and no limit but L2's size.
//
// A team of blocks reads a group with the hint that it stays (evict_last), adds its sums up, reads it again in reverse
// with the hint that it may go, and writes y past everything. While the team waits, the copy engine brings its share of
// the next group to L2 (a prefetch needs no registers and no shared memory), so memory is not idle. In L2 at once: two
// groups for each team; of 60 MB perhaps half is to be had, because both partitions may keep a copy.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "portable_forward.cuh"
#include "sm90_held.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kL2Threads = 512;
constexpr int kL2Blocks = 2;  // per SM
constexpr int kPrefetchBytes = 16 * 1024;

// Packs [begin, end) of a row that a member takes.
struct Range {
    int begin;
    int end;
};

__device__ __forceinline__ void prefetch_range(const unsigned char* row, Range range) {
    const int64_t end = static_cast<int64_t>(range.end) * 16;
    for (int64_t at = range.begin * int64_t{16} + threadIdx.x * kPrefetchBytes; at < end;
         at += int64_t{kL2Threads} * kPrefetchBytes) {
        const int64_t left = end - at;
        prefetch(row + at, static_cast<uint32_t>(left < kPrefetchBytes ? left : kPrefetchBytes));
    }
}

template <typename T>
__global__ void __launch_bounds__(kL2Threads, kL2Blocks)
    l2_forward(const __grid_constant__ Forward f, const __grid_constant__ Team team, double* partials) {
    constexpr int V = 16 / sizeof(T);
    constexpr int kUnroll = 4;
    __shared__ Board<kL2Threads / kWarp> board;
    __shared__ ClusterCells cells;
    const int member = blockIdx.x % team.members;
    const int rows = static_cast<int>(f.n * f.groups);
    const int packs = static_cast<int>(team.bytes / 16);
    const int each = (packs + team.members - 1) / team.members;
    const Range range = {min(member * each, packs), min((member + 1) * each, packs)};
    const int groups = static_cast<int>(f.groups);
    const int group_channels = static_cast<int>(f.channels) / groups;
    const uint32_t plane = static_cast<uint32_t>(f.spatial / V);
    const uint64_t stays = evict_last();
    const uint64_t goes = evict_first();
    for (int row = blockIdx.x / team.members; row < rows; row += team.teams) {
        const unsigned char* x = static_cast<const unsigned char*>(f.x) + row * team.bytes;
        Pair total = {0.0, 0.0};
        for (int first = range.begin + threadIdx.x; first < range.end; first += kUnroll * kL2Threads) {
            Raw raw[kUnroll];
            #pragma unroll
            for (int j = 0; j < kUnroll; ++j) {
                if (first + j * kL2Threads < range.end) {
                    raw[j] = load_hinted(x + static_cast<int64_t>(first + j * kL2Threads) * 16, stays);
                }
            }
            Run run;
            run.start(to_float(elements_of<T, V>(raw[0]).v[0]));
            #pragma unroll
            for (int j = 0; j < kUnroll; ++j) {
                if (first + j * kL2Threads >= range.end) break;
                #pragma unroll
                for (int k = 0; k < V; ++k) run.add(to_float(elements_of<T, V>(raw[j]).v[k]));
            }
            total = total + run.total();
        }
        if (row + team.teams < rows) prefetch_range(x + team.teams * team.bytes, range);
        total = team_total<kL2Threads, Exchange::kGlobal>(total, board, cells, partials, row, 0, member, team);
        const Moments m = moments_of(total, team.share, f.eps);
        if (member == 0 && threadIdx.x == 0) keep_moments(f, row, m);
        const int first_channel = row % groups * group_channels;
        unsigned char* y = static_cast<unsigned char*>(f.y) + row * team.bytes;
        #pragma unroll 4
        for (int i = range.end - 1 - static_cast<int>(threadIdx.x); i >= range.begin; i -= kL2Threads) {
            const Raw raw = load_hinted(x + static_cast<int64_t>(i) * 16, goes);
            const Affine affine = affine_here<T>(f, first_channel + static_cast<uint32_t>(i) / plane);
            const float scale = m.rstd * affine.weight;
            const float level = fmaf(-m.rest, scale, affine.bias);
            Pack<T, V> pack = elements_of<T, V>(raw);
            #pragma unroll
            for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(fmaf(to_float(pack.v[k]) - m.mean, scale, level));
            __stcs(reinterpret_cast<Raw*>(y + static_cast<int64_t>(i) * 16), reinterpret_cast<const Raw&>(pack));
        }
    }
}

}  // namespace kernelwright::group_norm::sm90
