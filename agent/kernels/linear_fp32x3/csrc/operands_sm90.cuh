// Host side of the product on the tensor cores: both operands split, the weight unless the caller did, then multiplied.
#pragma once

#include <algorithm>

#include "product_sm90.cuh"

namespace kernelwright::linear {

// Stages of 64 of K between two additions that round. 2 is a tenth faster, with an error above that of a float sum where K
// is below 1024.
constexpr int kPromote = 1;

// Shorter sums have too few roundings for three products to be below: an operand keeps 22 bits, and float 24.
constexpr int64_t kLeastDepth = 256;

inline int attribute(cudaDeviceAttr which, int64_t device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, static_cast<int>(device)) == cudaSuccess ? value : 0;
}

inline bool tensor_cores_take(int64_t k, int64_t device) {
    return k >= kLeastDepth && attribute(cudaDevAttrComputeCapabilityMajor, device) == 9 &&
           attribute(cudaDevAttrComputeCapabilityMinor, device) == 0;
}

inline int64_t operands_bytes(const Forward& args) {
    const int64_t stages = stages_of(args.k, kPromote);
    return packed_bytes(args.m, stages) + (args.packed == nullptr ? packed_bytes(args.n, stages) : 0);
}

// x * weight^T + bias of `args`, each tile of it given to `finish`.
template <class Finish>
cudaError_t with_operands(const Forward& args, const Finish& finish) {
    const int64_t stages = stages_of(args.k, kPromote);
    if (ceil_div(args.m, kTile) * ceil_div(args.n, kTile) > kMostBlocks || std::max(args.m, args.n) > kMostBlocks - kTile)
        return cudaErrorInvalidValue;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    const Packed x = packed_at(workspace, args.m, stages);
    const void* split_here = workspace + packed_bytes(args.m, stages);
    const Packed weight = packed_at(args.packed == nullptr ? split_here : args.packed, args.n, stages);
    cudaError_t error = split<false>(args.x, args.m, args.k, stages, x, args.stream);
    if (error == cudaSuccess && args.packed == nullptr) {
        error = split<true>(args.weight, args.n, args.k, stages, weight, args.stream);
    }
    if (error != cudaSuccess) return error;
    const Product p = {x, weight, args.bias, static_cast<int>(args.m), static_cast<int>(args.n),
                       static_cast<int>(stages)};
    return multiply<kPromote>(p, finish, attribute(cudaDevAttrMultiProcessorCount, args.device), args.stream);
}

}  // namespace kernelwright::linear
