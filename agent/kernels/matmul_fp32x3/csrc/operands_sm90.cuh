// Host side of the products on the tensor cores: into how many parts the depth is cut, where things lie in the workspace,
// and the launches.
#pragma once

#include "../../linear_fp32x3/csrc/operands_sm90.cuh"
#include "product_sm90.cuh"

namespace kernelwright::matmul {

// Up to this depth a float sum has so few roundings that lo * lo counts beside it.
constexpr int64_t kAllDepth = 128;

// How long parts take, in stages of a tile (1.1 us on an H200): waves of units, and what joining them costs. Few of them are
// joined by who is the last, after a store and a load of each.
inline double cost_of(int64_t tiles, int64_t stages, int64_t parts, int64_t elements, int64_t sms) {
    constexpr double kStart = 3.0, kLaunch = 4.0, kBytesOfStage = 3.3e6, kStore = 1.5;
    const double waves = static_cast<double>(ceil_div(tiles * parts, sms));
    const double of_wave = static_cast<double>(ceil_div(stages, parts)) + kStart;
    if (parts == 1) return waves * of_wave;
    if (parts <= kFewParts) return waves * (of_wave + kStore) + kStore * static_cast<double>(parts - 1);
    return waves * of_wave + kLaunch + 8.0 * static_cast<double>(parts * elements) / kBytesOfStage;
}

inline int64_t parts_of(const Forward& args, int64_t sms) {
    const int64_t tiles = args.batch * ceil_div(args.m, kTile) * ceil_div(args.n, kTile);
    const int64_t stages = linear::stages_of(args.k, 1);
    int64_t best = 1;
    for (int64_t parts = 2; parts <= std::min(kMostParts, stages); ++parts) {
        const int64_t elements = args.batch * args.m * args.n;
        if (cost_of(tiles, stages, parts, elements, sms) < cost_of(tiles, stages, best, elements, sms)) best = parts;
    }
    return best;
}

struct Plan {
    Operands both;
    int64_t sms, parts;
    int64_t b_at, ended_at, partial_at, bytes;  // in the workspace
};

inline Plan plan_of(const Forward& args) {
    Plan plan = {};
    plan.both.a = operand_at(args.a, args.batch, args.m, args.k, args.a_batch, args.a_row, args.a_depth);
    plan.both.b = operand_at(args.b, args.batch, args.n, args.k, args.b_batch, args.b_column, args.b_depth);
    plan.sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);
    plan.parts = parts_of(args, plan.sms);
    plan.b_at = on_256_bytes(plan.both.a.bytes());
    plan.ended_at = plan.b_at + on_256_bytes(plan.both.b.bytes());
    const int64_t tiles = args.batch * plan.both.a.tiles() * plan.both.b.tiles();
    const bool few = plan.parts > 1 && plan.parts <= kFewParts;
    plan.both.zeros = few ? tiles * kWarps : 0;
    plan.partial_at = plan.ended_at + on_256_bytes(plan.both.zeros * int64_t{sizeof(int)});
    const int64_t of_part = few ? tiles * kTile * kTile : args.batch * args.m * args.n;
    plan.bytes = plan.partial_at + (plan.parts > 1 ? plan.parts * of_part * int64_t{sizeof(float)} : 0);
    return plan;
}

template <bool ALL>
cudaError_t multiply(const Product& p, int64_t sms, cudaStream_t stream) {
    const auto kernel = matmul_fp32x3<ALL>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, linear::kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<std::min(static_cast<int>(sms), p.units()), kThreads, linear::kSharedBytes, stream>>>(p);
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
    if (args.batch * plan.parts * a.tiles() * b.tiles() > kMostBlocks) return cudaErrorInvalidValue;
    if (std::max({args.batch, args.m, args.n, a.stages}) > kMostBlocks - kTile) return cudaErrorInvalidValue;
    place(a, workspace);
    place(b, workspace + plan.b_at);
    plan.both.zeroed = reinterpret_cast<int*>(workspace + plan.ended_at);
    cudaError_t error = split(plan.both, args.stream);
    if (error != cudaSuccess) return error;
    Product p = {};
    p.tiles = {a.packed, b.packed, nullptr, static_cast<int>(args.m), static_cast<int>(args.n), static_cast<int>(a.stages)};
    p.a_bytes = a.batch == 1 ? 0 : a.tiles() * a.stages * kOperandBytes;
    p.b_bytes = b.batch == 1 ? 0 : b.tiles() * b.stages * kOperandBytes;
    p.a_rows = a.batch == 1 ? 0 : a.tiles() * kTile;
    p.b_rows = b.batch == 1 ? 0 : b.tiles() * kTile;
    p.batch = static_cast<int>(args.batch);
    p.parts = static_cast<int>(plan.parts);
    p.out = outcome_of(args);
    p.partial = reinterpret_cast<float*>(workspace + plan.partial_at);
    p.ended = plan.both.zeroed;
    p.plain = plan.both;
    p.all = args.precision == kFp32x4 || args.k <= kAllDepth;
    error = p.all ? multiply<true>(p, plan.sms, args.stream) : multiply<false>(p, plan.sms, args.stream);
    if (error != cudaSuccess || p.parts <= kFewParts) return error;
    return join(p, args.stream);
}

}  // namespace kernelwright::matmul
