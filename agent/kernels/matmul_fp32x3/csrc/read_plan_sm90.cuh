// Host side of the products that read their operands once: eligible calls, number of split-K parts, and the launches.
#pragma once

#include <algorithm>

#include "../../linear_fp32x3/csrc/device_sm90.cuh"
#include "add_parts_sm90.cuh"

namespace kernelwright::matmul {

struct ReadPlan {
    bool fits;      // the operands' layout is supported
    bool turned;    // the left operand is b
    bool halves;    // try two fp16 per value first
    bool adds;      // a second kernel adds up the parts, or c
    int64_t columns, tiles, parts;
    double us;      // modelled time in us
    int64_t bytes;  // bytes of the workspace
};

// Returns true if 16 bytes can be copied at a time, along the depth or along rows.
inline bool is_strip(const float* values, int64_t row_step, int64_t depth_step) {
    const int64_t step = depth_step == 1 ? row_step : depth_step;
    return (depth_step == 1 || row_step == 1) && step % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0;
}

constexpr int64_t kMostReadParts = 256;
// Smallest depth for two fp16 per value, since their error shows in shorter sums. Only tiles of 128 columns use two fp16, because
// narrower tiles are memory-bound.
constexpr int64_t kLeastOfHalves = 1024;

// Chooses the split-K parts by a model of an H100: `kChunkUs` per chunk of a tile, about 6 us of fixed time per block, and a launch to
// add up parts.
inline void cut_depth(ReadPlan& plan, int64_t chunks, int64_t elements, int64_t sms) {
    constexpr double kChunkUs[3] = {1.0, 1.07, 1.1}, kWideThirdsUs = 1.45, kStartUs = 6.0, kAddUs = 4.0, kBytesOfUs = 3.3e6;
    const bool is_wide = plan.columns == 128;
    const double chunk = is_wide && !plan.halves ? kWideThirdsUs : kChunkUs[is_wide ? 2 : plan.columns == 64 ? 1 : 0];
    plan.parts = 0;
    for (int64_t parts = 1; parts <= std::min(kMostReadParts, chunks); ++parts) {
        const double rounds = static_cast<double>(ceil_div(plan.tiles * parts, sms));
        const double added = parts > 1 ? kAddUs + 8.0 * static_cast<double>(parts * elements) / kBytesOfUs : 0.0;
        const double us = rounds * (chunk * static_cast<double>(ceil_div(chunks, parts)) + kStartUs) + added;
        if (plan.parts == 0 || us < plan.us) plan.parts = parts, plan.us = us;
    }
}

inline ReadPlan read_plan(const Forward& args, int64_t sms) {
    ReadPlan plan = {};
    plan.fits = args.batch == 1 && args.a_part == kWhole && args.b_part == kWhole && args.y_part == kWhole &&
                std::max({args.m, args.n, args.k}) <= kMostBlocks - kLeftRows && is_strip(args.a, args.a_row, args.a_depth) &&
                is_strip(args.b, args.b_column, args.b_depth);
    // b on the left saves 4 us: adjacent lanes store rows of the left operand, and b's columns are contiguous in y. But a left operand
    // that is contiguous along the depth saves 0.12 us per chunk.
    constexpr int64_t kDeep = 40;  // chunks of depth per block
    const int64_t chunks = ceil_div(args.k, kChunk);
    const bool is_deep = chunks * ceil_div(args.m, kLeftRows) * ceil_div(args.n, kLeftRows) >= kDeep * sms;
    const bool a_is_faster = std::min(args.m, args.n) > 64 && is_deep && args.a_depth == 1 && args.b_depth != 1;
    plan.turned = !a_is_faster && (args.m <= args.n || args.n > 64);
    const int64_t left = plan.turned ? args.n : args.m, right = plan.turned ? args.m : args.n;
    plan.columns = right <= 32 ? 32 : right <= 64 ? 64 : 128;
    plan.tiles = ceil_div(left, kLeftRows) * ceil_div(right, plan.columns);
    plan.fits = plan.fits && plan.tiles <= kMostBlocks / kMostReadParts;
    plan.halves = args.precision == linear::kFp32x3 && args.k >= kLeastOfHalves && plan.columns == 128;
    cut_depth(plan, chunks, args.m * args.n, sms);
    plan.adds = plan.parts > 1 || args.c != nullptr;
    plan.bytes = plan.adds ? plan.parts * args.m * args.n * int64_t{sizeof(float)} : 0;
    return plan;
}

// Returns true if reading the operands once is faster than splitting them first.
inline bool is_worth(const Forward& args, const ReadPlan&) {
    return args.precision == linear::kFp32x3 && args.m * args.n < 350 * (args.m + args.n);
}

inline Strip strip_of(const float* values, int64_t rows, int64_t row_step, int64_t depth_step) {
    const bool across = depth_step != 1;
    return {values, across ? depth_step : row_step, static_cast<int>(rows), across};
}

// Arguments of the kernel.
inline ReadOnce read_once_of(const Forward& args, const ReadPlan& plan) {
    const Strip a = strip_of(args.a, args.m, args.a_row, args.a_depth), b = strip_of(args.b, args.n, args.b_column, args.b_depth);
    ReadOnce p = {};
    p.left = plan.turned ? b : a, p.right = plan.turned ? a : b;
    p.depth = static_cast<int>(args.k), p.chunks = static_cast<int>(ceil_div(args.k, kChunk));
    p.parts = static_cast<int>(plan.parts);
    p.left_tiles = static_cast<int>(ceil_div(p.left.rows, kLeftRows)), p.right_tiles = static_cast<int>(ceil_div(p.right.rows, plan.columns));
    p.m = static_cast<int>(args.m), p.n = static_cast<int>(args.n);
    p.turned = plan.turned;
    p.out = outcome_of(args);
    p.to = plan.adds ? static_cast<float*>(args.workspace) : args.y;
    p.factor = plan.adds ? 1.0f : p.out.alpha;
    return p;
}

inline cudaError_t read_once_by(const ReadOnce& p, const ReadPlan& plan, cudaStream_t stream) {
    if (plan.columns == 128) return plan.halves ? read_once_by<128, true>(p, stream) : read_once_by<128, false>(p, stream);
    return plan.columns == 64 ? read_once_by<64, false>(p, stream) : read_once_by<32, false>(p, stream);
}

inline cudaError_t read_once(const Forward& args, const ReadPlan& plan) {
    const ReadOnce p = read_once_of(args, plan);
    const cudaError_t error = read_once_by(p, plan, args.stream);
    if (error != cudaSuccess || !plan.adds) return error;
    const int64_t blocks = ceil_div(args.m * args.n, added_by_block(plan.parts));
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    return launched(matmul_add_parts, static_cast<unsigned>(blocks), kAddThreads, args.stream, p);
}

}  // namespace kernelwright::matmul
