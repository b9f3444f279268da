// Host side of the products on the tensor cores: into how many parts the depth is cut, where things lie in the workspace,
// and the launches.
#pragma once

#include "../../linear_fp32x3/csrc/operands_sm90.cuh"
#include "product_sm90.cuh"

namespace kernelwright::matmul {

// Up to this depth a float sum has so few roundings that lo * lo counts beside it, whichever way its parts go.
constexpr int64_t kAllDepth = 512;

// How a product is cut, and how long that takes, in stages of a tile (1 us on an H200).
struct Cut {
    int64_t parts, streamed;
    int64_t blocks;  // that share the streamed stages
    double cost;
};

inline Cut cut_of(int64_t tiles, int64_t stages, int64_t elements, int64_t sms) {
    constexpr double kStart = 3.0, kLaunch = 4.0, kBytesOfStage = 3.3e6, kStore = 1.5;
    const auto whole = [&](int64_t count) { return static_cast<double>(ceil_div(count, sms)); };
    const double depth = static_cast<double>(stages);
    Cut best = {1, 0, 0, whole(tiles) * (depth + kStart)};
    const auto take = [&best](const Cut& other) { best = other.cost < best.cost ? other : best; };
    const auto join = [](int64_t parts) { return kStore * static_cast<double>(parts); };
    // Each tile by as many blocks of its own: few, since one of them adds all up.
    for (int64_t of_tile = 2; of_tile <= std::min({sms / tiles, stages, int64_t{8}}); ++of_tile) {
        take({1, tiles, tiles * of_tile, static_cast<double>(ceil_div(stages, of_tile)) + kStart + join(of_tile)});
    }
    // All SMs, each with an even share, which begins and ends within a tile.
    const int64_t streamed = tiles < sms ? tiles : tiles % sms + sms;
    if (tiles % sms > 0 && streamed * stages >= sms && streamed * stages < kMostBlocks) {
        const double share = static_cast<double>(streamed) * depth / static_cast<double>(sms);
        const double rest = whole(tiles - streamed) * (depth + kStart);
        take({1, streamed, sms, rest + share + kStart + join(2 + ceil_div(sms, streamed))});
    }
    for (int64_t parts = 2; parts <= std::min(kMostParts, stages); ++parts) {
        const double added = kLaunch + 8.0 * static_cast<double>(parts * elements) / kBytesOfStage;
        take({parts, 0, 0, whole(tiles * parts) * (static_cast<double>(ceil_div(stages, parts)) + kStart) + added});
    }
    return best;
}

struct Plan {
    Operands both;
    int64_t sms;
    Cut cut;
    int64_t b_at, ended_at, partial_at, bytes;  // in the workspace
};

inline Plan plan_of(const Forward& args) {
    Plan plan = {};
    plan.both.a = operand_at(args.a, args.batch, args.m, args.k, args.a_batch, args.a_row, args.a_depth, false);
    plan.both.b = operand_at(args.b, args.batch, args.n, args.k, args.b_batch, args.b_column, args.b_depth, true);
    plan.sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);
    const int64_t tiles = args.batch * plan.both.a.tiles() * plan.both.b.tiles(), elements = args.batch * args.m * args.n;
    plan.cut = cut_of(tiles, plan.both.a.stages, elements, plan.sms);
    plan.b_at = on_256_bytes(plan.both.a.bytes());
    plan.ended_at = plan.b_at + on_256_bytes(plan.both.b.bytes());
    plan.both.zeros = plan.cut.streamed * kWarps;
    plan.partial_at = plan.ended_at + on_256_bytes(plan.both.zeros * int64_t{sizeof(int)});
    int64_t sums = plan.cut.parts > 1 ? plan.cut.parts * elements : 0;
    if (plan.cut.streamed > 0) sums = plan.cut.blocks * 2 * kWarps * kWarpSums;
    plan.bytes = plan.partial_at + sums * int64_t{sizeof(float)};
    return plan;
}

template <bool ALL>
cudaError_t multiply(const Product& p, int64_t blocks, cudaStream_t stream) {
    const auto kernel = matmul_fp32x3<ALL>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream>>>(p);
    return cudaGetLastError();
}

inline cudaError_t join(const Product& p, cudaStream_t stream) {
    const int64_t blocks = ceil_div(int64_t{p.batch} * p.tiles.m * p.tiles.n, kJoinThreads * kJoined);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    matmul_join<<<static_cast<unsigned>(blocks), kJoinThreads, 0, stream>>>(p);
    return cudaGetLastError();
}

inline cudaError_t on_tensor_cores(const Forward& args) {
    Plan plan = plan_of(args);
    Operand &a = plan.both.a, &b = plan.both.b;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    if (args.batch * plan.cut.parts * a.tiles() * b.tiles() > kMostBlocks) return cudaErrorInvalidValue;
    if (std::max({args.batch, args.m, args.n, a.stages}) > kMostBlocks - kTile) return cudaErrorInvalidValue;
    a.packed = workspace;
    b.packed = workspace + plan.b_at;
    plan.both.zeroed = reinterpret_cast<int*>(workspace + plan.ended_at);
    cudaError_t error = split(plan.both, args.stream);
    if (error != cudaSuccess) return error;
    Product p = {};
    p.tiles.m = static_cast<int>(args.m), p.tiles.n = static_cast<int>(args.n), p.tiles.stages = static_cast<int>(a.stages);
    p.a = a.packed, p.b = b.packed;
    p.a_bytes = a.batch == 1 ? 0 : a.tiles() * a.stages * kPackedBytes;
    p.b_bytes = b.batch == 1 ? 0 : b.tiles() * b.stages * kPackedBytes;
    p.batch = static_cast<int>(args.batch);
    p.parts = static_cast<int>(plan.cut.parts);
    p.streamed = static_cast<int>(plan.cut.streamed);
    p.out = outcome_of(args);
    p.partial = reinterpret_cast<float*>(workspace + plan.partial_at);
    p.ended = plan.both.zeroed;
    p.plain = plan.both;
    p.all = args.precision == kFp32x4 || args.k <= kAllDepth;
    const int64_t blocks = p.streamed > 0 ? plan.cut.blocks : std::min(plan.sms, int64_t{p.units()});
    error = p.all ? multiply<true>(p, blocks, args.stream) : multiply<false>(p, blocks, args.stream);
    if (error != cudaSuccess || p.parts == 1) return error;
    return join(p, args.stream);
}

}  // namespace kernelwright::matmul
