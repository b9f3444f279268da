// Host side of the convolution on the tensor cores: where things lie in the workspace, and the launches.
#pragma once

#include "../../matmul_fp32x3/csrc/operands_sm90.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

// Up to this depth a float sum has so few roundings that lo * lo counts beside it.
constexpr int kAllDepth = 128;

struct Plan {
    Shape shape;
    matmul::Operands weight;  // as b
    int64_t taps_at, bytes;
};

inline Plan plan_of(const Forward& args) {
    Plan plan = {};
    const Shape& s = plan.shape = shape_of(args);
    const int64_t depth = s.depth();
    matmul::Operand& weight = plan.weight.b;
    weight = matmul::operand_at(args.weight, s.groups, s.features, depth, s.features * depth, depth, 1, true);
    plan.taps_at = on_256_bytes(weight.bytes());
    plan.bytes = plan.taps_at + weight.stages * kDepth * int64_t{sizeof(Tap)};
    return plan;
}

inline cudaError_t on_tensor_cores(const Forward& args) {
    Plan plan = plan_of(args);
    const Shape& s = plan.shape;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    auto* taps = reinterpret_cast<Tap*>(workspace + plan.taps_at);
    const int stages = static_cast<int>(plan.weight.b.stages);
    plan.weight.b.packed = workspace;
    cudaError_t error = matmul::split(plan.weight, args.stream);
    if (error == cudaSuccess) error = list_taps(s, taps, stages * kDepth, args.stream);
    if (error != cudaSuccess) return error;
    const Conv p = {s, args.x, args.weight, workspace, args.bias, args.y, taps, stages, s.depth() <= kAllDepth};
    const int64_t sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);
    const int rest = s.features % kTile;
    return rest > 0 && rest <= 64 ? multiply<64>(p, sms, args.stream) : multiply<128>(p, sms, args.stream);
}

}  // namespace kernelwright::conv
