// The launchers of interface.h: checks, and which path a call takes.
#pragma once

#include "interface.h"
#include "portable_launch.cuh"

namespace kw::group_norm {

// Sizes that the kernels can take; Python handles what is empty.
template <typename Call>
bool valid(const Call& call) {
    return call.n > 0 && call.channels > 0 && call.spatial > 0 && call.groups > 0 &&
           call.channels % call.groups == 0 && call.dtype >= kFloat32 && call.dtype <= kBFloat16 &&
           (call.param_dtype == kFloat32 || call.param_dtype == call.dtype) && call.layout >= kContiguous &&
           call.layout <= kChannelsLast && call.act >= kNone && call.act <= kHardswish;
}

template <typename Call>
bool empty(const Call& call) {
    return call.n == 0 || call.channels == 0 || call.spatial == 0;
}

inline int64_t forward_path(const Forward&) { return kPortable; }

inline int64_t backward_path(const Backward&) { return kPortable; }

inline int64_t forward_workspace(const Forward& args) { return valid(args) ? portable_forward_workspace(args) : 0; }

inline int64_t backward_workspace(const Backward& args) { return valid(args) ? portable_backward_workspace(args) : 0; }

inline cudaError_t forward(const Forward& args) {
    if (empty(args)) return cudaSuccess;
    if (!valid(args) || (args.path != kAuto && args.path != kPortable)) return cudaErrorInvalidValue;
    return portable_forward(args);
}

inline cudaError_t backward(const Backward& args) {
    if (empty(args)) return cudaSuccess;
    if (!valid(args) || (args.path != kAuto && args.path != kPortable)) return cudaErrorInvalidValue;
    return portable_backward(args);
}

}  // namespace kw::group_norm
