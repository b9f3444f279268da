// The launchers: checks, choice of the path, and workspace layout.
//
// KW_PORTABLE_ONLY leaves out all code for sm_90a, for compilers that do not support it.
#pragma once

#include <algorithm>

#include "backward.cuh"

#ifndef KW_PORTABLE_ONLY
#include "sm90.cuh"
#endif

namespace kernelwright::conv_logsumexp {

inline bool valid(const Forward& f) {
    const int64_t most = 65535;  // maximum grid size in y and z
    return f.n > 0 && f.n <= most && f.in_channels > 0 && f.channels > 0 && f.groups > 0 && f.groups <= most * 32 &&
           f.channels % f.groups == 0 && f.channels <= most && f.height > 2 && f.width > 2 &&
           f.height * f.width < (int64_t{1} << 27) && f.path >= kAuto && f.path <= kRecomputed;
}

// Offsets of the workspace's parts, each 256-aligned; `bytes` is the total.
struct Workspace {
    int64_t parts, norms, c, bytes;
};

inline Workspace workspace_of(const Forward& f, int64_t parts_of_image, bool is_stored) {
    const auto after = [](int64_t begin, int64_t bytes) { return begin + (bytes + 255) / 256 * 256; };
    const Sizes s = sizes_of(f);
    Workspace w;
    w.parts = 0;
    w.norms = after(w.parts, f.n * parts_of_image * f.channels * static_cast<int64_t>(sizeof(Part)));
    w.c = after(w.norms, f.n * f.channels * static_cast<int64_t>(sizeof(Norm)));
    w.bytes = after(w.c, is_stored ? f.n * f.channels * s.rows * s.pitch * static_cast<int64_t>(sizeof(float)) : 0);
    return w;
}

template <typename T>
T* in_workspace(const Forward& f, int64_t begin) {
    return reinterpret_cast<T*>(static_cast<char*>(f.workspace) + begin);
}

inline cudaError_t merge(const Forward& f, const Workspace& w, int64_t parts_of_image, Moments* moments = nullptr) {
    const dim3 grid(static_cast<unsigned>(f.groups), static_cast<unsigned>(f.n));
    return launched(
        merge_parts, grid, kMergeThreads, f.stream, in_workspace<Part>(f, w.parts), static_cast<int>(parts_of_image), f.gamma, f.beta, in_workspace<Norm>(f, w.norms), moments,
        static_cast<int>(f.channels), static_cast<int>(f.groups), f.eps);
}

inline cudaError_t finish_stored(const Forward& f, const Workspace& w) {
    const Sizes s = sizes_of(f);
    const int64_t blocks = (int64_t{s.rows} * s.columns + kFinishThreads - 1) / kFinishThreads;
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(f.n));
    return launched(
        finish, grid, kFinishThreads, f.stream, in_workspace<float>(f, w.c), in_workspace<Norm>(f, w.norms), f.y, s);
}

inline dim3 convolve_grid(const Forward& f) {
    const int64_t across_channels = (f.channels + kTileChannels - 1) / kTileChannels;
    return dim3(
        static_cast<unsigned>(sizes_of(f).tiles), static_cast<unsigned>(across_channels), static_cast<unsigned>(f.n));
}

inline cudaError_t convolve_stored(const Forward& f, const Workspace& w) {
    const Sizes s = sizes_of(f);
    const dim3 grid = convolve_grid(f);
    return launched(
        convolve, grid, kConvThreads, f.stream, f, s, in_workspace<float>(f, w.c), in_workspace<Part>(f, w.parts));
}

inline cudaError_t portable(const Forward& f) {
    const int64_t tiles = sizes_of(f).tiles;
    const Workspace w = workspace_of(f, tiles, true);
    cudaError_t status = convolve_stored(f, w);
    if (status == cudaSuccess) status = merge(f, w, tiles);
    return status == cudaSuccess ? finish_stored(f, w) : status;
}

#ifndef KW_PORTABLE_ONLY
namespace sm90 {

inline int attribute(cudaDeviceAttr which, int64_t device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, static_cast<int>(device)) == cudaSuccess ? value : 0;
}

inline bool takes(const Forward& f) {
    return f.in_channels == kIn && f.channels == kOut && f.n * plan_of(f).tiles_of_image < (int64_t{1} << 30) &&
           attribute(cudaDevAttrComputeCapabilityMajor, f.device) == 9;
}

// Returns true if the tensor cores are faster. If all blocks of the portable convolution fit one wave, it takes less
// time than the tensor cores' two passes.
inline bool is_worth(const Forward& f) {
    const dim3 grid = convolve_grid(f);
    const int64_t at_once = kConvBlocks * int64_t{attribute(cudaDevAttrMultiProcessorCount, f.device)};
    return int64_t{grid.x} * grid.y * grid.z > at_once;
}

template <Pass PASS>
cudaError_t convolve_all(const Forward& f, Part* parts, const Norm* norms) {
    const Plan p = plan_of(f);
    const auto kernel = convolve_tiles<PASS>;
    const int bytes = sizeof(Shared);
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess) return status;
    const int blocks = std::min(p.tiles, attribute(cudaDevAttrMultiProcessorCount, f.device));
    kernel<<<blocks, kThreads, bytes, f.stream>>>(f, p, parts, norms);
    return cudaGetLastError();
}

inline int64_t parts_of_image(const Forward& f) { return int64_t{plan_of(f).tiles_of_image} * kPartsOfTile; }

inline cudaError_t forward(const Forward& f) {
    const Workspace w = workspace_of(f, parts_of_image(f), false);
    Part* parts = in_workspace<Part>(f, w.parts);
    const Norm* norms = in_workspace<Norm>(f, w.norms);
    cudaError_t status = convolve_all<kStatistics>(f, parts, norms);
    if (status == cudaSuccess) status = merge(f, w, parts_of_image(f));
    return status == cudaSuccess ? convolve_all<kResult>(f, parts, norms) : status;
}

}  // namespace sm90
#endif

// Returns the path of large calls. The candidate file takes that path at every size.
inline int64_t path_when_large(const Forward& f) {
#ifndef KW_PORTABLE_ONLY
    if (sm90::takes(f)) return kRecomputed;
#endif
    return kPortable;
}

inline int64_t forward_path(const Forward& f) {
    if (f.path != kAuto) return f.path;
#ifndef KW_PORTABLE_ONLY
    if (sm90::takes(f) && sm90::is_worth(f)) return kRecomputed;
#endif
    return kPortable;
}

inline int64_t forward_workspace(const Forward& f) {
    if (!valid(f)) return 0;
#ifndef KW_PORTABLE_ONLY
    if (forward_path(f) == kRecomputed) return workspace_of(f, sm90::parts_of_image(f), false).bytes;
#endif
    return workspace_of(f, sizes_of(f).tiles, true).bytes;
}

// Launches the forward. Returns cudaErrorInvalidValue for unsupported arguments.
inline cudaError_t forward(const Forward& f) {
    if (!valid(f)) return cudaErrorInvalidValue;
    if (forward_path(f) == kPortable) return portable(f);
#ifndef KW_PORTABLE_ONLY
    if (sm90::takes(f)) return sm90::forward(f);
#endif
    return cudaErrorInvalidValue;
}

inline Forward forward_of(const Backward& b) {
    return {b.x, b.weight, b.bias, b.gamma, b.beta, nullptr, b.workspace, b.n, b.in_channels, b.channels, b.height, b.width,
            b.groups, kPortable, b.eps, b.stream, b.device};
}

// Offsets of the backward's workspace parts after those of the portable forward, each 256-aligned; `bytes` is the
// total.
struct BackWorkspace {
    Workspace forward;
    int64_t blocks;  // blocks per image, along its pixels
    int64_t moments, parts, backs, bytes;

    explicit BackWorkspace(const Forward& f) : forward(workspace_of(f, sizes_of(f).tiles, true)) {
        const auto after = [](int64_t begin, int64_t bytes) { return begin + (bytes + 255) / 256 * 256; };
        constexpr int64_t kEach = kSlopePixels * kSlopeThreads;
        blocks = ((f.height - 2) * (f.width - 2) + kEach - 1) / kEach;
        moments = forward.bytes;
        parts = after(moments, f.n * f.groups * static_cast<int64_t>(sizeof(Moments)));
        backs = after(parts, f.n * blocks * f.channels * static_cast<int64_t>(sizeof(Slopes)));
        bytes = after(backs, f.n * f.channels * static_cast<int64_t>(sizeof(Back)));
    }
};

inline int64_t backward_workspace(const Backward& b) {
    const Forward f = forward_of(b);
    return valid(f) ? BackWorkspace(f).bytes : 0;
}

// Launches the backward. Returns cudaErrorInvalidValue for unsupported arguments.
inline cudaError_t backward(const Backward& b) {
    const Forward f = forward_of(b);
    if (!valid(f)) return cudaErrorInvalidValue;
    const BackWorkspace w(f);
    const Sizes s = sizes_of(f);
    const float* c = in_workspace<float>(f, w.forward.c);
    const Norm* norms = in_workspace<Norm>(f, w.forward.norms);
    Moments* moments = in_workspace<Moments>(f, w.moments);
    Slopes* parts = in_workspace<Slopes>(f, w.parts);
    Back* backs = in_workspace<Back>(f, w.backs);
    const int width = s.channels / static_cast<int>(f.groups);
    const dim3 grid(static_cast<unsigned>(w.blocks), static_cast<unsigned>((f.channels + kSlopeChannels - 1) / kSlopeChannels),
                    static_cast<unsigned>(f.n));
    const dim3 groups(static_cast<unsigned>(f.groups), static_cast<unsigned>(f.n));
    cudaError_t status = convolve_stored(f, w.forward);
    if (status == cudaSuccess) status = merge(f, w.forward, s.tiles, moments);
    if (status == cudaSuccess) {
        status = launched(sum_slopes, grid, kSlopeThreads, f.stream, c, norms, moments, b.dy, b.y, parts, s, width);
    }
    if (status == cudaSuccess) {
        status = launched(
            merge_slopes, groups, kMergeThreads, f.stream, parts, static_cast<int>(w.blocks), moments, b.gamma, b.sums, backs, s,
            width);
    }
    if (status != cudaSuccess) return status;
    return launched(put_gradients, grid, kSlopeThreads, f.stream, c, norms, backs, b.dy, b.y, b.dc, s);
}

}  // namespace kernelwright::conv_logsumexp
