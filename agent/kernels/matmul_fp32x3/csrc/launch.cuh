// The launchers: choice of the path.
//
// KW_PORTABLE_ONLY leaves out everything for sm_90a, for compilers that do not support it.
#pragma once

#include "sizes.cuh"
#include "product_portable.cuh"
#include "sparse.cuh"
#ifndef KW_PORTABLE_ONLY
#include "operands_sm90.cuh"
#endif

namespace kernelwright::matmul {

// Smallest K for the tensor cores. Shorter float sums round so seldom that three products would not match them.
constexpr int64_t kLeastDepth = 32;

inline bool takes_tensor_cores(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    return args.precision != linear::kIeee && args.precision != kSparseA && args.k >= kLeastDepth &&
           linear::tensor_cores_take(linear::kLeastDepth, args.device);
#else
    return false;
#endif
}

inline int64_t forward_workspace(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (takes_tensor_cores(args)) return tensor_cores_workspace(args);
#endif
    return 0;
}

inline cudaError_t forward(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (takes_tensor_cores(args)) return on_tensor_cores(args);
#endif
    if (args.precision == kSparseA) {
        const cudaError_t error = multiply_sparse(args);
        return error == cudaSuccess && args.c != nullptr ? multiply_portable(args) : error;
    }
    return multiply_portable(args);
}

}  // namespace kernelwright::matmul
