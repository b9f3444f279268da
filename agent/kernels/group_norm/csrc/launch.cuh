// Launchers of interface.h: validation and path selection.
//
// KW_PORTABLE_ONLY excludes all sm_90 code, for compilers that cannot parse it.
#pragma once

#include <algorithm>

#include "interface.h"
#include "portable_launch.cuh"

#ifndef KW_PORTABLE_ONLY
#include "sm90_cluster_launch.cuh"
#include "sm90_launch.cuh"
#endif

namespace kernelwright::group_norm {

// Returns true for sizes that the kernels support. Python handles empty tensors.
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

// Returns true if the path supports the call.
template <typename Call>
bool takes_path(const Call& call, int64_t path) {
    if (!valid(call)) return false;
    if (path == kAuto || path == kPortable) return true;
#ifndef KW_PORTABLE_ONLY
    return (path == kStreamed && sm90::takes(call)) || (path == kClustered && sm90::cluster_takes(call));
#else
    return false;
#endif
}

inline int64_t forward_path(const Forward& args) {
    if (args.path != kAuto) return args.path;
    const int64_t rows = args.n * args.groups;
    const int64_t bytes = args.channels / args.groups * args.spatial * element_bytes(args.dtype);
    const bool one_launch = args.layout == kContiguous && is_short(args);
    if (one_launch && (bytes < kLeastOfMany || rows <= kSms)) return kPortable;
    // Streams the rows if they are too many for the clusters to hold at once: clusters would run in waves, with one
    // block per SM, which is slower.
    if (bytes > kAtOnceBytes && rows * bytes > kHeldAtOnce && takes_path(args, kStreamed)) return kStreamed;
    if (takes_path(args, kClustered)) return kClustered;
    const bool large = !resident(args.channels / args.groups * args.spatial, row_lanes(args));
    return large && takes_path(args, kStreamed) ? kStreamed : kPortable;
}

inline int64_t backward_path(const Backward& args) {
    if (args.path != kAuto) return args.path;
    if (args.layout == kContiguous && is_short(args)) return kPortable;
    const int64_t bytes = 2 * (args.channels / args.groups) * args.spatial * element_bytes(args.dtype);
    const bool waves = args.n * args.groups * bytes > kHeldAtOnce;
    if (bytes >= kStreamedBytes && waves && takes_path(args, kStreamed)) return kStreamed;
    if (takes_path(args, kClustered)) return kClustered;
    const bool large = !resident(args.channels / args.groups * args.spatial, 1);
    return large && takes_path(args, kStreamed) ? kStreamed : kPortable;
}

// Returns true if the portable path must replace the selected one. A process may have fewer SMs than its device, under
// MPS for example. Blocks that wait for each other may then not be resident together.
template <typename Call>
bool falls_back(const Call& call, cudaError_t error) {
    const bool too_large = error == cudaErrorCooperativeLaunchTooLarge || error == cudaErrorInvalidClusterSize;
    if (call.path != kAuto || !too_large) return false;
    cudaGetLastError();  // clears the error, which the next launch would report
    return true;
}

#ifndef KW_PORTABLE_ONLY
template <typename Call>
int64_t workspace_of(const Call& call, int64_t path) {
    if (path == kStreamed) return sm90::workspace(call);
    return path == kClustered ? sm90::cluster_workspace(call) : 0;
}
#endif

// Returns the workspace bytes that suffice for every path the call may take.
inline int64_t forward_workspace(const Forward& args) {
    if (empty(args) || !takes_path(args, args.path)) return 0;
    int64_t bytes = 0;
#ifndef KW_PORTABLE_ONLY
    bytes = workspace_of(args, forward_path(args));
#endif
    return args.path == kAuto || args.path == kPortable ? std::max(bytes, portable_forward_workspace(args)) : bytes;
}

inline int64_t backward_workspace(const Backward& args) {
    if (empty(args) || !takes_path(args, args.path)) return 0;
    int64_t bytes = 0;
#ifndef KW_PORTABLE_ONLY
    bytes = workspace_of(args, backward_path(args));
#endif
    return args.path == kAuto || args.path == kPortable ? std::max(bytes, portable_backward_workspace(args)) : bytes;
}

inline cudaError_t forward(const Forward& args) {
    if (empty(args)) return cudaSuccess;
    if (!takes_path(args, args.path)) return cudaErrorInvalidValue;
#ifndef KW_PORTABLE_ONLY
    const int64_t path = forward_path(args);
    if (path != kPortable) {
        const cudaError_t error = path == kStreamed ? sm90::forward(args) : sm90::cluster_forward(args);
        if (!falls_back(args, error)) return error;
    }
#endif
    return portable_forward(args);
}

inline cudaError_t backward(const Backward& args) {
    if (empty(args)) return cudaSuccess;
    if (!takes_path(args, args.path)) return cudaErrorInvalidValue;
#ifndef KW_PORTABLE_ONLY
    const int64_t path = backward_path(args);
    if (path != kPortable) {
        const cudaError_t error = path == kStreamed ? sm90::backward(args) : sm90::cluster_backward(args);
        if (!falls_back(args, error)) return error;
    }
#endif
    return portable_backward(args);
}

}  // namespace kernelwright::group_norm
