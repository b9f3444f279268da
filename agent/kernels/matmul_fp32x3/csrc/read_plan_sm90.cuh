// Host side of the products that read their operands once: which calls they take, into how many parts the depth is cut, and the launches.
#pragma once

#include <algorithm>

#include "../../linear_fp32x3/csrc/device_sm90.cuh"
#include "add_parts_sm90.cuh"

namespace kernelwright::matmul {

struct ReadPlan {
    bool fits;      // operands lie as they can be copied
    bool turned;    // the left operand is b
    bool halves;    // two fp16 of each value, where that is enough
    bool adds;      // parts, or c, by a kernel of its own
    int64_t columns, tiles, parts;
    double us;      // that it takes, as far as that is known
    int64_t bytes;  // of the workspace
};

// Sixteen bytes of a row, or of neighbouring rows, at a time.
inline bool is_strip(const float* values, int64_t row_step, int64_t depth_step) {
    const int64_t step = depth_step == 1 ? row_step : depth_step;
    return (depth_step == 1 || row_step == 1) && step % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0;
}

constexpr int64_t kMostReadParts = 256;
// Two fp16 are taken from this depth, for what they leave out of single products shows in shorter sums; and for tiles of 128 columns,
// for others wait for memory.
constexpr int64_t kLeastOfHalves = 1024;

// On an H100 a chunk of a tile takes `kChunkUs` of an SM, a block some 6 us to begin and to end, and adding parts up a launch.
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
    // b's columns are neighbours in y, and rows of the left operand are what neighbouring lanes store: 4 us less. But where depths are
    // neighbours, a chunk's left rows are read in 0.12 us less.
    constexpr int64_t kDeep = 40;  // chunks of a block
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

// Whether that is faster than splitting the operands first.
inline bool is_worth(const Forward& args, const ReadPlan&) {
    return args.precision == linear::kFp32x3 && args.m * args.n < 350 * (args.m + args.n);
}

inline Strip strip_of(const float* values, int64_t rows, int64_t row_step, int64_t depth_step) {
    const bool across = depth_step != 1;
    return {values, across ? depth_step : row_step, static_cast<int>(rows), across};
}

// What the kernel is told.
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
