// The launchers: choice of the path, and workspace of the split operands.
//
// KW_PORTABLE_ONLY leaves out everything for sm_90a, for compilers that do not support it.
#pragma once

#include "product_portable.cuh"
#ifndef KW_PORTABLE_ONLY
#include "operands_sm90.cuh"
#endif

namespace kernelwright::linear {

inline bool on_tensor_cores(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    return args.precision == kFp32x3 && tensor_cores_take(args.k, args.device);
#else
    return false;
#endif
}

inline int64_t forward_workspace(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (on_tensor_cores(args)) return operands_bytes(args);
#endif
    return 0;
}

inline cudaError_t forward(const Forward& args) {
#ifndef KW_PORTABLE_ONLY
    if (on_tensor_cores(args)) return with_operands(args, StoreTile{args.y});
#endif
    return multiply_portable({args.x, args.weight, args.bias, args.y, args.m, args.n, args.k, false, false},
                             args.stream);
}

// Bytes of a split weight; 0 if no path splits it.
inline int64_t packed_bytes(const Split& args) {
#ifndef KW_PORTABLE_ONLY
    if (tensor_cores_take(args.k, args.device)) return packed_bytes(args.rows, stages_of(args.k, kPromote));
#endif
    return 0;
}

inline cudaError_t split(const Split& args) {
#ifndef KW_PORTABLE_ONLY
    const int64_t stages = stages_of(args.k, kPromote);
    const Rows weight = rows_of(args.values, args.rows, args.k, packed_at(args.packed, args.rows, stages));
    return split(Rows{}, weight, args.k, stages, nullptr, args.stream);
#else
    return cudaErrorInvalidValue;
#endif
}

}  // namespace kernelwright::linear
