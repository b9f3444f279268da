// LayerNorm and RMSNorm forward for many short rows, also of x + residual. A block first copies several rows for each
// team of lanes into shared memory. All resident blocks then read before they write, which is faster than reads and
// writes in turn. Registers would hold half as many rows.
#pragma once

#include "norm_held.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kStagedThreads = 256;
constexpr int kStagedBlocks = 8;  // resident blocks per SM
constexpr int kStagedPacks = 4;   // packs of a thread in shared memory

// kTeam neighbouring lanes of a warp handle a row, with up to kPacks packs each.
template <int kTeam_, int kPacks_, bool kSum_>
struct Staged {
    static constexpr bool kSum = kSum_;
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kTensors = kSum ? 2 : 1;
    static constexpr int kTeams = kStagedThreads / kTeam;  // teams per block
    static constexpr int kRows = kStagedPacks / (kPacks * kTensors);  // rows per team
};

// Computes LayerNorm, or RMSNorm without kCentred, which has no bias. `residual` and `added` are null unless kSum.
template <typename Stage, bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kStagedThreads, kStagedBlocks) norm_staged(
    const Pack<T, V>* x, const Pack<T, V>* residual, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y,
    Pack<T, V>* __restrict__ added, float* __restrict__ means, float* __restrict__ rstds, unsigned rows, int packs,
    float share, float eps) {
    await_earlier();
    constexpr int kPacks = Stage::kPacks, kTeam = Stage::kTeam, kTensors = Stage::kTensors;
    __shared__ Pack<T, V> staged[kStagedPacks][kStagedThreads];
    const int thread = int(threadIdx.x), lane = thread % kTeam;
    // The team's first row. Its other rows follow at a distance of one row for each team of the block.
    const unsigned first = blockIdx.x * (Stage::kTeams * Stage::kRows) + thread / kTeam;
    const auto is_row = [&](int r) { return first + r * Stage::kTeams < rows; };
    const int64_t begin = int64_t{first} * packs + lane;
    x += begin;
    y += begin;
    if (Stage::kSum) {
        residual += begin;
        added += begin;
    }
    const int apart = Stage::kTeams * packs;
    const auto is_pack = [&](int u) { return lane + u * kTeam < packs; };
    #pragma unroll
    for (int i = 0; i < Stage::kRows * kPacks; ++i) {
        const int r = i / kPacks, u = i % kPacks, at = r * apart + u * kTeam;
        if (!is_row(r) || !is_pack(u)) continue;
        copy_async(&staged[i * kTensors][thread], x + at);
        if (Stage::kSum) copy_async(&staged[i * kTensors + 1][thread], residual + at);
    }
    copies_asked_for();
    if (!kCentred) bias.values = nullptr;
    Affine<T, V> affine[kPacks];
    each_pack<kPacks>(lane, kTeam, packs, [&](int u, int at) { affine[u].load(weight, bias, at); });
    copies_wait(0);
    read_again();
    #pragma unroll 1
    for (int r = 0; r < Stage::kRows; ++r) {
        Pack<float, V> kept[kPacks];
        float sum = 0.0f, squares = 0.0f, mean = 0.0f;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            Pack<T, V> pack = filled<T, V>(0.0f);  // a missing pack adds 0 to the sums
            if (is_row(r) && is_pack(u)) {
                const int i = (r * kPacks + u) * kTensors;
                pack = staged[i][thread];
                if (Stage::kSum) added[u * kTeam] = pack = total(pack, staged[i + 1][thread]);
            }
            kept[u] = widened(pack);
            #pragma unroll
            for (const float one : kept[u].v) {
                if (kCentred) sum += one;
                else squares = fmaf(one, one, squares);
            }
        }
        if (kCentred) {
            mean = sum_over_lanes<kTeam>(sum) * share;
            #pragma unroll
            for (int u = 0; u < kPacks; ++u) {
                float of_pack = 0.0f;
                #pragma unroll
                for (const float one : kept[u].v) of_pack = fmaf(one - mean, one - mean, of_pack);
                squares += is_pack(u) ? of_pack : 0.0f;
            }
        }
        const float rstd = rsqrtf(sum_over_lanes<kTeam>(squares) * share + eps);
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            keep_as_stored(affine[u].scale);
            if (kCentred) keep_as_stored(affine[u].shift);
            const Pack<T, V> made = affine[u].of(kept[u], mean, rstd);
            if (is_row(r) && is_pack(u)) y[u * kTeam] = made;
        }
        y += apart;
        if (Stage::kSum) added += apart;
        if (rstds == nullptr || lane != 0 || !is_row(r)) continue;
        if (kCentred) means[first + r * Stage::kTeams] = mean;
        rstds[first + r * Stage::kTeams] = rstd;
    }
}

template <typename Stage, bool kCentred, typename T, int V>
cudaError_t launch_staged(const AddRowForward& args) {
    constexpr int64_t kEach = Stage::kTeams * Stage::kRows;
    return launched(
        norm_staged<Stage, kCentred, T, V>, unsigned((args.rows + kEach - 1) / kEach), kStagedThreads, args.stream,
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual), weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd,
        unsigned(args.rows), int(args.length / V), 1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
