// Host side of the clustered path: supported calls, distribution of a group over the blocks of a cluster, and launches.
#pragma once

#include <algorithm>

#include "sizes.cuh"
#include "sm90_cluster_backward.cuh"
#include "sm90_cluster_forward.cuh"
#include "sm90_launch.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int64_t kMostBytes = 208 * 1024;  // maximum bytes held by a block that has an SM alone
constexpr int64_t kLeastGroup = 1024;       // minimum bytes of a group; below it clusters are slower
constexpr int64_t kSmallBytes = 32 * 1024;  // maximum bytes held by blocks that may share an SM
constexpr int64_t kLeastPart = 2560;        // minimum bytes of a block that takes part of a row so that one launch suffices
constexpr int64_t kMostShared = 224 * 1024;
constexpr int kLeastTeam = 8;               // threads; smaller teams cause bank conflicts in shared memory
constexpr int64_t kShortPlane = 16;         // packs; for planes up to this length, half as many threads are faster
constexpr double kPieceCost = 2.5;
constexpr int kMostRounds = 4;
constexpr int64_t kMostOfCluster = 16;      // blocks; a GPU may refuse more than kMaxCluster
constexpr int64_t kWideCluster = 12;        // blocks of a wide cluster, if several share an SM
constexpr int64_t kBlocksOfSm = 3;          // blocks of wide clusters per SM
constexpr int64_t kMorePacks = 64;

// Number of blocks per row and of threads per block. takes_samples: a cluster handles a group's rows of all samples.
struct Cluster {
    int blocks;
    int threads;
    bool takes_samples;
};

// Selects the fewest blocks that hold a row and fill the SMs (some 128), given the rows and the bytes to hold of each.
// Two blocks fit on an SM side by side; larger clusters are distributed unevenly, so that it takes twice as many blocks
// to fill all SMs. Returns no blocks if a cluster cannot hold a row, or if the row is short.
// benchmarks/kernels/README.md has the measured gain.
inline Cluster cluster_for(int64_t rows, int64_t bytes) {
    if (bytes < kLeastGroup || bytes > kMaxBlocks * kMostBytes || rows * kMaxBlocks > kMaxGrid) return {};
    int64_t blocks = 1;
    for (; blocks < kMaxBlocks; blocks *= 2) {
        const bool pairs_alone = blocks == 2 && rows * blocks <= kSms;
        const bool holds = bytes <= blocks * (pairs_alone ? kMostBytes : kHeldBytes);
        const bool fills = rows * blocks >= (blocks <= 2 ? kSms : 2 * kSms);
        if (holds && (fills || bytes < 2 * blocks * kLeastBytes)) break;
    }
    // Clusters of eight with two blocks per SM are not all resident at once: the SMs of a GPC are not a multiple of
    // four.
    const bool in_pairs = 3 * bytes > 2 * blocks * kHeldBytes && bytes <= blocks * kHeldBytes;
    if (blocks == kMaxBlocks && in_pairs && rows * blocks >= 2 * kSms) blocks = ceil_div(bytes, kHeldBytes);
    // Uses many threads for few or large blocks, which otherwise leave an SM idle.
    const int64_t held = bytes / blocks;
    const bool many = held > 64 * 1024 || (blocks <= 2 && rows * blocks <= 2 * kSms && held >= 16 * 1024);
    int threads = many ? kMaxClusterThreads : kMaxClusterThreads / 2;
    // Uses few threads for many small blocks, of which an SM then holds more.
    if (rows > kSms && bytes <= 16 * 1024) threads = 128;
    if (rows > kSms && bytes <= 4 * 1024) threads = 64;
    return {static_cast<int>(blocks), threads, false};
}

inline Cluster cluster_for(const Forward& f, int64_t bytes) { return cluster_for(f.n * f.groups, bytes); }

// Selects the cluster of a backward call. If blocks are small, or so few that each has an SM, a cluster handles a group
// of all samples, so that the same launch computes dweight and dbias.
inline Cluster cluster_for(const Backward& b, int64_t bytes) {
    const int64_t rows = b.n * b.groups;
    Cluster cluster = cluster_for(rows, 2 * bytes);
    if (cluster.blocks == 0 || b.n > kWideCluster) return cluster;
    const int64_t most = std::min<int64_t>(kMaxBlocks, std::max<int64_t>(2 * bytes / kLeastPart, 1));
    int64_t blocks = std::min(most, kMostOfCluster / b.n);
    if (rows * blocks > kSms) blocks = std::min({most, kWideCluster / b.n, std::max<int64_t>(kBlocksOfSm * kSms / rows, 1)});
    const int64_t held = ceil_div(2 * bytes, blocks);
    const bool alone = rows * blocks <= kSms;
    if (held <= kSmallBytes ? rows * blocks <= 4 * kSms : alone && held <= kHeldBytes) {
        const int threads = held < 4 * 1024 ? 128 : alone && held >= 16 * 1024 ? kMaxClusterThreads : kMaxClusterThreads / 2;
        return {static_cast<int>(blocks), threads, true};
    }
    cluster.takes_samples = b.n == 1;
    // Uses five blocks of half as many threads instead of two blocks with an SM each, which is faster.
    const bool pairs_alone = cluster.blocks == 2 && rows * 2 <= kSms && 2 * bytes >= 5 * kLeastBytes;
    return pairs_alone ? Cluster{5, kMaxClusterThreads / 2, cluster.takes_samples} : cluster;
}

inline ForwardShare share_out(const Forward& f, Cluster cluster) {
    ForwardShare share = {};
    share.blocks = cluster.blocks;
    if (share.blocks == 0) return share;
    const int64_t lanes = 16 / element_bytes(f.dtype);
    const int64_t group_channels = f.channels / f.groups;
    const int64_t length = group_channels * f.spatial;
    share.threads = cluster.threads;
    share.packs = static_cast<int>(ceil_div(length / lanes, share.blocks));
    share.spatial = static_cast<int>(f.spatial);
    share.groups = static_cast<int>(f.groups);
    share.group_channels = static_cast<int>(group_channels);
    share.channels = static_cast<int>(std::min(group_channels, share.packs * lanes / f.spatial + 2));
    share.step = static_cast<int>(share.threads * lanes / f.spatial);
    share.rest = static_cast<int>(share.threads * lanes % f.spatial);
    share.inverse = 1.0 / static_cast<double>(length);
    share.by_spatial = Divisor<int>(share.spatial);
    share.by_groups = Divisor<int>(share.groups);
    return share;
}

// Teams of threads that sum planes, one piece after the other.
struct Units {
    int team;       // threads of a team, within a warp
    int64_t packs;  // maximum packs of a piece
};

// Returns the maximum size of `units` units, where `pieces` units make up a plane. A whole plane has the size `plane`,
// a single unit the size `piece`.
inline int64_t held_by(int64_t units, int64_t pieces, int64_t plane, int64_t piece) {
    return units / pieces * plane + units % pieces * piece;
}

// Selects the units that keep a block's teams busy for the shortest time, for `planes` planes of `plane` packs. A piece
// has a fixed cost of kPieceCost packs per thread. No block may exceed its share by more than kMorePacks.
inline Units units_for(int64_t planes, int64_t plane, Cluster cluster) {
    Units best = {kWarp, ceil_div(plane, ceil_div(plane, kMorePacks))};
    double least = 0.0;
    for (int team = plane <= kShortPlane ? kLeastTeam / 2 : kLeastTeam; team <= kWarp; team *= 2) {
        const int64_t teams = cluster.threads / team;
        for (int rounds = 1; rounds <= kMostRounds; ++rounds) {
            const int64_t wanted = rounds * teams * cluster.blocks / planes;
            const int64_t pieces = std::max<int64_t>(1, std::min(wanted, ceil_div(plane, team)));
            const int64_t packs = ceil_div(plane, pieces);
            const int64_t units = ceil_div(planes * pieces, cluster.blocks);
            const double cost = ceil_div(units, teams) * (kPieceCost + ceil_div(packs, team));
            const bool is_even = held_by(units, pieces, plane, packs) <= planes * plane / cluster.blocks + kMorePacks;
            if (!is_even || (least > 0.0 && cost >= least)) continue;
            least = cost;
            best = {team, packs};
        }
    }
    return best;
}

inline BackwardShare share_out(const Backward& b, Cluster cluster) {
    BackwardShare share = {};
    share.blocks = cluster.blocks;
    if (share.blocks == 0) return share;
    const int64_t lanes = 16 / element_bytes(b.dtype);
    const int64_t group_channels = b.channels / b.groups;
    const int64_t plane = ceil_div(b.spatial, lanes);  // in packs, so units are in packs too
    share.threads = cluster.threads;
    const Units units = units_for(group_channels, plane, cluster);
    share.team = units.team;
    share.unit = static_cast<int>(std::min(units.packs * lanes, b.spatial));
    share.pieces = static_cast<int>(ceil_div(b.spatial, share.unit));
    share.row_units = static_cast<int>(group_channels) * share.pieces;
    share.units = share.row_units / share.blocks;
    share.more = share.row_units % share.blocks;
    share.spatial = static_cast<int>(b.spatial);
    const int64_t most = held_by(ceil_div(share.row_units, share.blocks), share.pieces, b.spatial, share.unit);
    share.packs = static_cast<int>((most + 2 * lanes - 2) / lanes);  // one more where packs are partial
    share.groups = static_cast<int>(b.groups);
    share.group_channels = static_cast<int>(group_channels);
    share.channels = static_cast<int>(std::min<int64_t>(group_channels, share.units / share.pieces + 4));
    share.adds_up = cluster.takes_samples && (b.dweight != nullptr || b.dbias != nullptr);
    share.samples = share.adds_up ? static_cast<int>(b.n) : 1;
    share.is_last_read = is_last_read(b);
    share.step = static_cast<int>(share.threads * lanes / b.spatial);
    share.rest = static_cast<int>(share.threads * lanes % b.spatial);
    share.inverse = 1.0 / static_cast<double>(group_channels * b.spatial);
    share.by_spatial = Divisor<int>(share.spatial);
    share.by_groups = Divisor<int>(share.groups);
    share.by_pieces = Divisor<int>(share.pieces);
    share.by_blocks = Divisor<int>(share.blocks);
    share.by_all_blocks = Divisor<int>(share.blocks * share.samples);
    return share;
}

template <class Call>
auto cluster_share(const Call& call) {
    return share_out(call, cluster_for(call, call.channels / call.groups * call.spatial * element_bytes(call.dtype)));
}

// Return the number of blocks in a cluster.
inline int blocks_of(const ForwardShare& share) { return share.blocks; }
inline int blocks_of(const BackwardShare& share) { return share.blocks * share.samples; }

// Returns the shared memory of a block: its packs of each tensor, the parameters of its channels and, in a backward
// that adds up gradients of parameters, its partial sums.
inline int64_t shared_bytes(const ForwardShare& share) {
    return share.packs * int64_t{sizeof(Raw)} + share.channels * int64_t{sizeof(Affine)};
}

inline int64_t shared_bytes(const BackwardShare& share) {
    const int64_t parts = ceil_div(share.group_channels, share.blocks * share.samples) * share.samples * share.pieces;
    return share.packs * int64_t{2 * sizeof(Raw)} + share.channels * int64_t{sizeof(Affine)} +
           (share.adds_up ? parts * int64_t{sizeof(Sums)} : 0);
}

// Returns true if every block of a cluster has part of the row and room for it. In forward every block always has a
// part: rows have at least 512 packs.
inline bool shares_out(const ForwardShare& share) {
    return share.blocks > 0 && shared_bytes(share) <= kMostShared;
}

inline bool shares_out(const BackwardShare& share) {
    return share.blocks > 0 && share.units > 0 && shared_bytes(share) <= kMostShared;
}

template <class Call>
bool cluster_takes_sizes(const Call& call) {
    const int64_t elements = call.channels / call.groups * call.spatial;
    return call.layout == kContiguous && call.channels <= kMaxGrid && elements <= kMaxGrid &&
           call.spatial * element_bytes(call.dtype) >= 16 &&
           attribute(cudaDevAttrComputeCapabilityMajor, call.device) == 9 && shares_out(cluster_share(call));
}

inline bool cluster_takes(const Forward& f) { return forward_lanes(f) > 1 && cluster_takes_sizes(f); }

inline bool cluster_takes(const Backward& b) {
    return (b.dx != nullptr || b.dresidual != nullptr) && backward_lanes(b, b.spatial) > 1 && cluster_takes_sizes(b);
}

inline int64_t cluster_workspace(const Forward&) { return 0; }

inline int64_t cluster_workspace(const Backward& b) {
    const BackwardShare share = cluster_share(b);
    return share.adds_up ? 0 : b.n * b.groups * share.row_units * int64_t{sizeof(Sums)};
}

template <class Call, class Share, class... Arguments>
cudaError_t launch_clusters(const Call& call, const Share& share, void (*kernel)(Call, Share, Arguments...),
                            Arguments... rest) {
    const int64_t bytes = shared_bytes(share);
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) return error;
    if (blocks_of(share) > kMaxCluster) {
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
    const auto grid = static_cast<unsigned>(call.n * call.groups * share.blocks);
    return launched_as(kernel, blocks_of(share), grid, share.threads, bytes, call.stream, call, share, rest...);
}

inline cudaError_t cluster_forward(const Forward& f) {
    return with_dtype(f.dtype, [&](auto element) {
        return launch_clusters(f, cluster_share(f), cluster_forward<decltype(element)>);
    });
}

inline cudaError_t cluster_backward(const Backward& b) {
    return with_dtype(b.dtype, [&](auto element) {
        const BackwardShare share = cluster_share(b);
        Sums* sums = static_cast<Sums*>(b.workspace);
        const cudaError_t error = launch_clusters(b, share, cluster_backward<decltype(element)>, sums);
        if (error != cudaSuccess || share.adds_up) return error;
        return launch_channels<decltype(element)>(b, sums, {share.pieces, 1, share.row_units, 1});
    });
}

}  // namespace kernelwright::group_norm::sm90
