// The launchers of interface.h: checks, and which path a call takes.
//
// KW_PORTABLE_ONLY leaves out all that is only for sm_90, for compilers that cannot read it. KW_DTYPES selects types
// (sizes.cuh).
#pragma once

#include "interface.h"
#include "portable_launch.cuh"

#ifndef KW_PORTABLE_ONLY
#include "sm90_launch.cuh"
#endif

namespace kernelwright::group_norm {

// The design that kAuto takes for groups that no single block can hold, where it takes the call. It stays the portable
// path until benchmarks/kernels/group_norm_bench.cu has run on a GPU and says which design is right and fastest.
constexpr int64_t kForLargeGroups = kPortable;
constexpr int64_t kForLargeGroupsFused = kPortable;  // with an activation or a residual; sm90::kRing is made for it
constexpr int64_t kForLargeGroupsBackward = kPortable;

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

// Whether the path can take the call.
template <typename Call>
bool takes_path(const Call& call, int64_t path) {
    if (!valid(call)) return false;
    if (path == kAuto || path == kPortable) return true;
#ifndef KW_PORTABLE_ONLY
    return sm90::takes(call, path);
#else
    return false;
#endif
}

inline int64_t forward_path(const Forward& args) {
    if (args.path != kAuto) return args.path;
    const bool large = !resident(args.channels / args.groups * args.spatial, forward_lanes(args));
    const bool fused = args.act != kNone || args.residual != nullptr;
    const int64_t chosen = fused ? kForLargeGroupsFused : kForLargeGroups;
    return large && takes_path(args, chosen) ? chosen : kPortable;
}

inline int64_t backward_path(const Backward& args) {
    if (args.path != kAuto) return args.path;
    const bool large = !resident(args.channels / args.groups * args.spatial, 1);
    return large && takes_path(args, kForLargeGroupsBackward) ? kForLargeGroupsBackward : kPortable;
}

inline int64_t forward_workspace(const Forward& args) {
    if (empty(args) || !takes_path(args, args.path)) return 0;
#ifndef KW_PORTABLE_ONLY
    if (forward_path(args) != kPortable) return sm90::workspace(args, forward_path(args));
#endif
    return portable_forward_workspace(args);
}

inline int64_t backward_workspace(const Backward& args) {
    if (empty(args) || !takes_path(args, args.path)) return 0;
#ifndef KW_PORTABLE_ONLY
    if (backward_path(args) != kPortable) return sm90::workspace(args, backward_path(args));
#endif
    return portable_backward_workspace(args);
}

inline cudaError_t forward(const Forward& args) {
    if (empty(args)) return cudaSuccess;
    if (!takes_path(args, args.path)) return cudaErrorInvalidValue;
#ifndef KW_PORTABLE_ONLY
    if (forward_path(args) != kPortable) return sm90::forward(args, forward_path(args));
#endif
    return portable_forward(args);
}

inline cudaError_t backward(const Backward& args) {
    if (empty(args)) return cudaSuccess;
    if (!takes_path(args, args.path)) return cudaErrorInvalidValue;
#ifndef KW_PORTABLE_ONLY
    if (backward_path(args) != kPortable) return sm90::backward(args, backward_path(args));
#endif
    return portable_backward(args);
}

}  // namespace kernelwright::group_norm
