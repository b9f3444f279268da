// Host side of the products on the tensor cores: schedule, workspace layout, and the launches.
#pragma once

#include "../../linear_fp32x3/csrc/device_sm90.cuh"
#include "anew_sm90.cuh"
#include "few_tiles_sm90.cuh"
#include "read_plan_sm90.cuh"

namespace kernelwright::matmul {

// Up to this K a float sum rounds so seldom that omitting lo * lo would show, even with random signs.
constexpr int64_t kAllDepth = 512;

constexpr int64_t kKeptInL2 = 40 << 20;

struct Plan {
    Operands both;
    bool all;  // lo * lo is included
    int64_t sms, tiles;
    Cut cut;
    bool few;  // two blocks per tile, after a split in one launch (few_tiles_sm90.cuh)
    int64_t b_at, ended_at, partial_at, bytes;  // offsets in the workspace
};

inline Plan plan_of(const Forward& args, int64_t sms) {
    Plan plan = {};
    plan.all = args.precision != linear::kFp32x3 || args.k <= kAllDepth;
    plan.both.a = operand_at(args.a, args.batch, args.m, args.k, args.a_batch, args.a_row, args.a_depth);
    plan.both.b = b_of(operand_at(args.b, args.batch, args.n, args.k, args.b_batch, args.b_column, args.b_depth), !plan.all);
    plan.both.a.part = args.a_part;
    plan.both.b.part = turned(args.b_part);  // b's columns are the operand's rows
    plan.sms = sms;
    plan.tiles = args.batch * plan.both.a.tiles() * plan.both.b.tiles();
    const int64_t elements = args.batch * args.m * args.n;
    const bool whole = args.a_part == kWhole && args.b_part == kWhole && args.y_part == kWhole;
    const bool fits = plan.both.a.bytes() + plan.both.b.bytes() <= kKeptInL2;
    const Cut by_tiles = {1, 0, 0, static_cast<double>(plan.both.a.stages) + kStart};
    plan.cut = whole ? cut_of(plan.tiles, plan.both.a.stages, elements, plan.sms, true, fits) : by_tiles;
    plan.few = is_few(plan.both, plan.tiles, plan.sms, plan.cut.cost);
    if (plan.few) {
        plan.cut = by_tiles;
        plan.both.b.pieces = 0;
    }
    plan.b_at = on_256_bytes(plan.both.a.bytes());
    plan.ended_at = plan.b_at + on_256_bytes(plan.both.b.bytes());
    plan.both.zeros = plan.cut.counters();
    const int64_t counts = plan.few ? split_blocks(plan.both) : plan.both.zeros;
    plan.partial_at = plan.ended_at + on_256_bytes(counts * int64_t{sizeof(int)});
    const int64_t sums = plan.cut.parts > 1 ? plan.cut.parts * elements : plan.cut.sums();
    plan.bytes = plan.partial_at + sums * int64_t{sizeof(float)};
    return plan;
}

template <bool ALL>
cudaError_t multiply(const Product& p, unsigned blocks, cudaStream_t stream) {
    const auto kernel = matmul_fp32x3<ALL>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    return launched_with(kernel, blocks, kThreads, kSharedBytes, stream, p);
}

inline cudaError_t join(const Product& p, cudaStream_t stream) {
    const int64_t blocks = ceil_div(int64_t{p.batch} * p.tiles.m * p.tiles.n, kJoinThreads * kJoined);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    return launched(matmul_join, static_cast<unsigned>(blocks), kJoinThreads, stream, p);
}

// Arguments of the kernels. Also sets the workspace pointers of the plan's operands.
inline Product product_of(const Forward& args, Plan& plan) {
    Operand &a = plan.both.a, &b = plan.both.b;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    place(a, workspace);
    place(b, workspace + plan.b_at);
    a.sparse = b.sparse;
    plan.both.zeroed = plan.both.noted = reinterpret_cast<int*>(workspace + plan.ended_at);
    Product p = {};
    p.tiles.m = static_cast<int>(args.m), p.tiles.n = static_cast<int>(args.n), p.tiles.stages = static_cast<int>(a.stages);
    p.a = a.packed, p.b = b.packed;
    p.a_bytes = a.batch == 1 ? 0 : a.tiles() * a.tile_bytes();
    p.b_bytes = b.batch == 1 ? 0 : b.tiles() * b.tile_bytes();
    p.exponents = b.exponents;
    p.b_rows = b.batch == 1 ? 0 : b.tiles() * kTile;
    p.batch = static_cast<int>(args.batch);
    p.cut = plan.cut.schedule(plan.tiles, a.stages);
    p.out = outcome_of(args);
    p.partial = reinterpret_cast<float*>(workspace + plan.partial_at);
    p.ended = plan.both.zeroed;
    p.plain = plan.both;
    p.all = plan.all;
    p.y_part = args.y_part;
    return p;
}

inline cudaError_t run(const Forward& args, Plan plan) {
    const Operand& a = plan.both.a;
    if (plan.tiles * plan.cut.parts > kMostBlocks) return cudaErrorInvalidValue;
    if (std::max({args.batch, args.m, args.n, a.stages}) > kMostBlocks - kTile) return cudaErrorInvalidValue;
    const Product p = product_of(args, plan);
    if (plan.few) return few_tiles(p, args.stream);
    cudaError_t error = is_read_once(plan.both.b) ? split_and_add_up(plan.both, args.stream) : split(plan.both, args.stream);
    if (error != cudaSuccess) return error;
    const unsigned blocks = plan.cut.grid(plan.tiles, plan.sms);
    error = p.all ? multiply<true>(p, blocks, args.stream) : multiply<false>(p, blocks, args.stream);
    if (error == cudaSuccess && p.cut.parts > 1) error = join(p, args.stream);
    return error == cudaSuccess ? compute_anew(p, plan.sms, args.stream) : error;
}

inline int64_t sms_of(const Forward& args) { return linear::attribute(cudaDevAttrMultiProcessorCount, args.device); }

inline bool reads_once(const Forward& args, const ReadPlan& plan) { return plan.fits && (args.precision == kBf16x6 || is_worth(args, plan)); }

inline int64_t tensor_cores_workspace(const Forward& args) {
    const int64_t sms = sms_of(args);
    const ReadPlan once = read_plan(args, sms);
    return reads_once(args, once) ? once.bytes : plan_of(args, sms).bytes;
}

inline cudaError_t on_tensor_cores(const Forward& args) {
    const int64_t sms = sms_of(args);
    const ReadPlan once = read_plan(args, sms);
    return reads_once(args, once) ? read_once(args, once) : run(args, plan_of(args, sms));
}

}  // namespace kernelwright::matmul
