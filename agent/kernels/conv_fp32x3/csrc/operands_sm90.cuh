// Host side of the convolution on the tensor cores: workspace layout and launches.
#pragma once

#include "../../linear_fp32x3/csrc/device_sm90.cuh"
#include "anew_sm90.cuh"

namespace kernelwright::conv {

// Up to this K a float sum rounds so seldom that omitting lo * lo would show.
constexpr int kAllDepth = 128;

struct Plan {
    Shape shape;
    matmul::Operands weight;  // the operand b of matmul_fp32x3's split
    bool all;                 // lo * lo is included
    int64_t features;         // features per tile
    int64_t sms, tiles;
    matmul::Cut cut;
    int64_t taps_at, noted_at, partial_at, bytes;
};

inline Plan plan_of(const Forward& args) {
    Plan plan = {};
    const Shape& s = plan.shape = shape_of(args);
    const int64_t depth = s.depth();
    plan.all = depth <= kAllDepth;
    matmul::Operand& weight = plan.weight.b;
    weight = matmul::b_of(matmul::operand_at(args.weight, s.groups, s.features, depth, s.features * depth, depth, 1), !plan.all);
    const int rest = s.features % kTile;
    plan.features = rest > 0 && rest <= 64 ? 64 : 128;
    plan.sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);
    plan.tiles = s.groups * ceil_div(s.pixels(), kTile) * ceil_div(s.features, plan.features);
    plan.cut = matmul::cut_of(plan.tiles, weight.stages, 0, plan.sms, false, true);
    plan.weight.zeros = 1 + plan.cut.counters() + plan.cut.streamed * kTile + plan.tiles;
    plan.taps_at = on_256_bytes(weight.bytes());
    plan.noted_at = plan.taps_at + on_256_bytes(weight.stages * kDepth * int64_t{sizeof(Tap)});
    const int64_t noted = plan.weight.zeros + plan.tiles;
    plan.partial_at = plan.noted_at + on_256_bytes(noted * int64_t{sizeof(int)});
    plan.bytes = plan.partial_at + plan.cut.sums() * int64_t{sizeof(float)};
    return plan;
}

inline cudaError_t on_tensor_cores(const Forward& args) {
    Plan plan = plan_of(args);
    const Shape& s = plan.shape;
    matmul::Operand& weight = plan.weight.b;
    if (plan.tiles > kMostBlocks) return cudaErrorInvalidValue;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    auto* taps = reinterpret_cast<Tap*>(workspace + plan.taps_at);
    matmul::place(weight, workspace);
    plan.weight.zeroed = reinterpret_cast<int*>(workspace + plan.noted_at);
    cudaError_t error = matmul::split(plan.weight, args.stream);
    if (error == cudaSuccess) error = list_taps(s, taps, static_cast<int>(weight.stages) * kDepth, args.stream);
    if (error != cudaSuccess) return error;
    Conv p = {};
    p.shape = s;
    p.x = args.x, p.plain = args.weight, p.bias = args.bias, p.y = args.y;
    p.weight = weight.packed, p.exponents = weight.exponents;
    p.taps = taps;
    p.cut = plan.cut.schedule(plan.tiles, weight.stages);
    p.partial = reinterpret_cast<float*>(workspace + plan.partial_at);
    p.listed = plan.weight.zeroed;
    p.ended = p.listed + 1;
    p.factors = p.ended + plan.cut.counters();
    p.losses = p.factors + plan.cut.streamed * kTile;
    p.list = p.losses + plan.tiles;
    p.sparse = weight.sparse;
    p.width = static_cast<int>(plan.features);
    p.all = plan.all;
    const unsigned blocks = plan.cut.grid(plan.tiles, plan.sms);
    if (plan.features == 64) {
        error = plan.all ? multiply<64, true>(p, blocks, args.stream) : multiply<64, false>(p, blocks, args.stream);
    } else {
        error = plan.all ? multiply<128, true>(p, blocks, args.stream) : multiply<128, false>(p, blocks, args.stream);
    }
    return error == cudaSuccess ? compute_anew(p, plan.sms, args.stream) : error;
}

}  // namespace kernelwright::conv
