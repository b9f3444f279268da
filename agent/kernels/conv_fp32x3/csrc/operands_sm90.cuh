// Host side of the convolution on the tensor cores: where things lie in the workspace, and the launches.
#pragma once

#include "../../matmul_fp32x3/csrc/operands_sm90.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

struct Plan {
    Shape shape;
    matmul::Operand weight;
    int64_t taps_at, largest_at, exponents_at, bytes;
};

inline Plan plan_of(const Forward& args) {
    Plan plan = {};
    const Shape& s = plan.shape = shape_of(args);
    const int64_t depth = s.depth();
    plan.weight = matmul::operand_at(args.weight, s.groups, s.features, depth, s.features * depth, depth, 1);
    plan.taps_at = on_256_bytes(plan.weight.bytes());
    plan.largest_at = plan.taps_at + on_256_bytes(plan.weight.stages * kDepth * int64_t{sizeof(Tap)});
    plan.exponents_at = plan.largest_at + on_256_bytes(int64_t{s.images} * s.groups * s.in.count() * 4);
    plan.bytes = plan.exponents_at + int64_t{s.groups} * s.pixels() * 4;
    return plan;
}

inline cudaError_t on_tensor_cores(const Forward& args) {
    Plan plan = plan_of(args);
    const Shape& s = plan.shape;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    auto* taps = reinterpret_cast<Tap*>(workspace + plan.taps_at);
    auto* largest = reinterpret_cast<float*>(workspace + plan.largest_at);
    auto* exponents = reinterpret_cast<int*>(workspace + plan.exponents_at);
    place(plan.weight, workspace);
    cudaError_t error = matmul::split({{}, plan.weight, nullptr, 0}, args.stream);
    if (error == cudaSuccess) error = list_taps(s, taps, static_cast<int>(plan.weight.stages) * kDepth, args.stream);
    if (error == cudaSuccess) error = find_exponents(s, args.x, largest, exponents, args.stream);
    if (error != cudaSuccess) return error;
    const Conv p = {s, args.x, plan.weight.packed, args.bias, args.y, exponents, taps, static_cast<int>(plan.weight.stages)};
    const int64_t sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);
    const int rest = s.features % kTile;
    return rest > 0 && rest <= 64 ? multiply<64>(p, sms, args.stream) : multiply<128>(p, sms, args.stream);
}

}  // namespace kernelwright::conv
