// The launchers: choice of the path, and workspace.
//
// KW_PORTABLE_ONLY leaves out everything for sm_90a, for compilers that do not support it.
#pragma once

#include "sizes.cuh"
#include "product_portable.cuh"
#ifndef KW_PORTABLE_ONLY
#include "operands_sm90.cuh"
#endif

namespace kernelwright::conv {

// Smallest K (channels times taps) for the tensor cores. Shorter float sums round so seldom that three products would
// not match them.
constexpr int64_t kLeastDepth = 27;

inline bool takes_tensor_cores(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    return args.precision == linear::kFp32x3 && shape_of(args).depth() >= kLeastDepth &&
           linear::tensor_cores_take(linear::kLeastDepth, args.device);
#else
    return false;
#endif
}

inline int64_t forward_workspace(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (takes_tensor_cores(args)) return plan_of(args).bytes;
#endif
    return portable_workspace(shape_of(args));
}

inline cudaError_t forward(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (takes_tensor_cores(args)) return on_tensor_cores(args);
#endif
    return multiply_portable(args);
}

}  // namespace kernelwright::conv
