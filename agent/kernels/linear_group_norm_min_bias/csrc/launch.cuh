// The launchers. Norm and minimum run in the product's epilogue if a group fits a tile. Otherwise the activation is stored in
// the workspace and a second kernel reads it.
#pragma once

#include "least.cuh"
#include "../../linear_fp32x3/csrc/launch.cuh"
#ifndef KW_PORTABLE_ONLY
#include "least_sm90.cuh"
#endif

namespace kernelwright::linear_group_norm_min_bias {

// Arguments of out[0, j, i, 0] = min over c of GroupNorm(x * weight^T + linear_bias)[i, c] + bias[j]. All tensors are float32
// and contiguous, and no size is 0. Every field takes 8 bytes.
struct Forward {
    const float* x;            // [m, k]
    const float* weight;       // [n, k]
    const float* linear_bias;  // [n], or null
    const float* gamma;        // [n], or null
    const float* beta;         // [n], or null
    const float* bias;         // [count]
    const void* packed;        // the weight split by linear_fp32x3's `split`, or null
    const float* activation;   // [m, n], x * weight^T + linear_bias if already computed, or null
    float* out;                // [count, m]
    void* workspace;           // forward_workspace(args) bytes, 256-aligned
    int64_t m, n, k;
    int64_t groups, count;
    int64_t precision;         // value of linear::Precision
    double eps;
    cudaStream_t stream;
    int64_t device;
};

inline linear::Forward product_of(const Forward& args, void* workspace, float* y) {
    return {args.x,         args.weight, args.linear_bias, args.packed, y,
            workspace,      args.m,      args.n,           args.k,      args.precision,
            args.stream,    args.device};
}

inline bool in_epilogue(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    return args.activation == nullptr && linear::on_tensor_cores(product_of(args, nullptr, nullptr)) && fits_a_tile(args.n / args.groups);
#else
    return false;
#endif
}

// Returns the number of rows of `smallest`, the first part of the workspace: one per tile of columns, or a single one.
inline int64_t tiles_of(const Forward& args) { return in_epilogue(args) ? linear::ceil_div(args.n, 128) : 1; }

inline int64_t smallest_bytes(const Forward& args) {
    return linear::on_256_bytes(tiles_of(args) * args.m * int64_t{sizeof(float)});
}

// Returns the bytes of the second part of the workspace: the activation, if it is stored there. The product's own workspace
// comes last.
inline int64_t activation_bytes(const Forward& args) {
    return in_epilogue(args) || args.activation != nullptr ? 0 : linear::on_256_bytes(args.m * args.n * int64_t{sizeof(float)});
}

inline int64_t forward_workspace(const Forward& args) {
    const int64_t of_product = args.activation == nullptr ? linear::forward_workspace(product_of(args, nullptr, nullptr)) : 0;
    return smallest_bytes(args) + activation_bytes(args) + of_product;
}

inline cudaError_t forward(const Forward& args) {
    if (args.groups < 1 || args.n % args.groups != 0 || args.m > linear::kMostBlocks) return cudaErrorInvalidValue;
    auto* workspace = static_cast<unsigned char*>(args.workspace);
    auto* smallest = static_cast<float*>(args.workspace);
    auto* y = reinterpret_cast<float*>(workspace + smallest_bytes(args));
    const linear::Forward product = product_of(args, workspace + smallest_bytes(args) + activation_bytes(args), y);
    const Norm norm = {args.gamma, args.beta, static_cast<float>(args.eps)};
    const int64_t width = args.n / args.groups;
    cudaError_t error = cudaSuccess;
    if (in_epilogue(args)) {
#ifndef KW_PORTABLE_ONLY
        error = least_of_groups(product, norm, width, smallest);
#endif
    } else {
        if (args.activation == nullptr) error = linear::forward(product);
        if (error == cudaSuccess) {
            const float* activation = args.activation == nullptr ? y : args.activation;
            error = least_by_rows(activation, args.m, args.n, width, norm, smallest, args.stream);
        }
    }
    if (error != cudaSuccess) return error;
    return spread(smallest, tiles_of(args), args.bias, args.out, args.m, args.count, args.stream);
}

}  // namespace kernelwright::linear_group_norm_min_bias
