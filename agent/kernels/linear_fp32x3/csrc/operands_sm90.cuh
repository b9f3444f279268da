// Host side of the product on the tensor cores: splits both operands (the weight unless the caller has), multiplies them, and
// recomputes the tiles that lost too much accuracy.
#pragma once

#include "anew_sm90.cuh"
#include "device_sm90.cuh"
#include "rows_sm90.cuh"

namespace kernelwright::linear {

// Stages of 64 of K between two additions that round. With 2 stages the product is 10 % faster, but its error exceeds that of a
// float sum for K below 1024.
constexpr int kPromote = 1;

constexpr int64_t kSuspectBytes = 256;

// Returns the bytes that the product writes for the check after it.
inline int64_t noted_bytes(const Forward& args) {
    return kSuspectBytes + on_256_bytes(ceil_div(args.n, kTile) * padded_rows(args.m) * int64_t{sizeof(float)});
}

inline int64_t operands_bytes(const Forward& args) {
    const int64_t stages = stages_of(args.k, kPromote);
    return noted_bytes(args) + packed_bytes(args.m, stages) + (args.packed == nullptr ? packed_bytes(args.n, stages) : 0);
}

// Computes x * weight^T + bias of `args` and passes each tile to `finish`.
template <class Finish>
cudaError_t with_operands(const Forward& args, const Finish& finish) {
    const int64_t stages = stages_of(args.k, kPromote);
    if (ceil_div(args.m, kTile) * ceil_div(args.n, kTile) > kMostBlocks || std::max(args.m, args.n) > kMostBlocks - kTile)
        return cudaErrorInvalidValue;
    auto* noted = static_cast<unsigned char*>(args.workspace);
    auto* suspect = reinterpret_cast<int*>(noted);
    auto* workspace = noted + noted_bytes(args);
    const Packed x = packed_at(workspace, args.m, stages);
    const void* split_here = workspace + packed_bytes(args.m, stages);
    const Packed weight = packed_at(args.packed == nullptr ? split_here : args.packed, args.n, stages);
    const Rows of_x = rows_of(args.x, args.m, args.k, x);
    const Rows of_weight = rows_of(args.weight, args.packed == nullptr ? args.n : 0, args.k, weight);
    cudaError_t error = split(of_x, of_weight, args.k, stages, suspect, args.stream);
    if (error != cudaSuccess) return error;
    const int sms = attribute(cudaDevAttrMultiProcessorCount, args.device);
    const float needed = matmul::needed_for(2.0f * static_cast<float>(args.k));
    const Product p = {x, weight, args.bias, static_cast<int>(args.m), static_cast<int>(args.n), static_cast<int>(args.k),
                       static_cast<int>(stages), suspect, reinterpret_cast<float*>(noted + kSuspectBytes), needed};
    error = multiply<kPromote>(p, finish, sms, args.stream);
    return error == cudaSuccess ? compute_anew(p, args, finish.anew(), sms, args.stream) : error;
}

}  // namespace kernelwright::linear
