// The launcher: checks, which path a call takes, and what it needs beside its tensors.
//
// KW_PORTABLE_ONLY leaves out all that is only for sm_90a, for compilers that cannot read it.
#pragma once

#include <algorithm>

#include "portable.cuh"

#ifndef KW_PORTABLE_ONLY
#include "sm90.cuh"
#endif

namespace kernelwright::conv_logsumexp {

inline bool valid(const Forward& f) {
    const int64_t most = 65535;  // of a grid, in y and z
    return f.n > 0 && f.n <= most && f.in_channels > 0 && f.channels > 0 && f.groups > 0 && f.groups <= most * 32 &&
           f.channels % f.groups == 0 && f.channels <= most && f.height > 2 && f.width > 2 &&
           f.height * f.width < (int64_t{1} << 27) && f.path >= kAuto && f.path <= kStoredOnce;
}

// The workspace's parts, each on 256 bytes; `bytes` is all of it.
struct Workspace {
    int64_t parts, norms, c, bytes;
};

inline Workspace workspace_of(const Forward& f, int64_t parts_of_image, bool stores) {
    const auto after = [](int64_t begin, int64_t bytes) { return begin + (bytes + 255) / 256 * 256; };
    const Sizes s = sizes_of(f);
    Workspace w;
    w.parts = 0;
    w.norms = after(w.parts, f.n * parts_of_image * f.channels * static_cast<int64_t>(sizeof(Part)));
    w.c = after(w.norms, f.n * f.channels * static_cast<int64_t>(sizeof(Norm)));
    w.bytes = after(w.c, stores ? f.n * f.channels * s.rows * s.pitch * static_cast<int64_t>(sizeof(float)) : 0);
    return w;
}

template <typename T>
T* in_workspace(const Forward& f, int64_t begin) {
    return reinterpret_cast<T*>(static_cast<char*>(f.workspace) + begin);
}

inline void merge(const Forward& f, const Workspace& w, int64_t parts_of_image) {
    const dim3 grid(static_cast<unsigned>(f.groups), static_cast<unsigned>(f.n));
    merge_parts<<<grid, kMergeThreads, 0, f.stream>>>(
        in_workspace<Part>(f, w.parts), static_cast<int>(parts_of_image), f.gamma, f.beta, in_workspace<Norm>(f, w.norms),
        static_cast<int>(f.channels), static_cast<int>(f.groups), f.eps);
}

inline void finish_stored(const Forward& f, const Workspace& w) {
    const Sizes s = sizes_of(f);
    const int64_t blocks = (int64_t{s.rows} * s.columns + kFinishThreads - 1) / kFinishThreads;
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(f.n));
    finish<<<grid, kFinishThreads, 0, f.stream>>>(in_workspace<float>(f, w.c), in_workspace<Norm>(f, w.norms), f.y, s);
}

inline void convolve_stored(const Forward& f, const Workspace& w) {
    const Sizes s = sizes_of(f);
    const int64_t across_channels = (f.channels + kTileChannels - 1) / kTileChannels;
    const dim3 grid(static_cast<unsigned>(s.tiles), static_cast<unsigned>(across_channels), static_cast<unsigned>(f.n));
    convolve<<<grid, kConvThreads, 0, f.stream>>>(f, s, in_workspace<float>(f, w.c), in_workspace<Part>(f, w.parts));
}

inline cudaError_t portable(const Forward& f) {
    const int64_t tiles = sizes_of(f).tiles;
    const Workspace w = workspace_of(f, tiles, true);
    convolve_stored(f, w);
    merge(f, w, tiles);
    finish_stored(f, w);
    return cudaGetLastError();
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

template <Pass PASS>
cudaError_t convolve_all(const Forward& f, const Target& to) {
    const Plan p = plan_of(f);
    const auto kernel = convolve_tiles<PASS>;
    const int bytes = sizeof(Shared);
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess) return status;
    const int blocks = std::min(p.tiles, attribute(cudaDevAttrMultiProcessorCount, f.device));
    kernel<<<blocks, kThreads, bytes, f.stream>>>(f, p, to);
    return cudaGetLastError();
}

inline int64_t parts_of_image(const Forward& f) { return int64_t{plan_of(f).tiles_of_image} * kPartsOfTile; }

inline cudaError_t forward(const Forward& f, bool stores) {
    const Workspace w = workspace_of(f, parts_of_image(f), stores);
    const Target to = {in_workspace<Part>(f, w.parts), in_workspace<float>(f, w.c), sizes_of(f).pitch,
                       in_workspace<Norm>(f, w.norms)};
    cudaError_t status = stores ? convolve_all<kStored>(f, to) : convolve_all<kStatistics>(f, to);
    if (status != cudaSuccess) return status;
    merge(f, w, parts_of_image(f));
    if (!stores) return convolve_all<kResult>(f, to);
    finish_stored(f, w);
    return cudaGetLastError();
}

// What kAuto takes for a call that the tensor cores can take. It stays the portable path until
// benchmarks/kernels/conv_logsumexp_bench.cu has run on a GPU and says that kRecomputed is right and faster.
constexpr Path kOnTensorCores = kPortable;

}  // namespace sm90
#endif

inline int64_t forward_path(const Forward& f) {
    if (f.path != kAuto) return f.path;
#ifndef KW_PORTABLE_ONLY
    if (sm90::takes(f)) return sm90::kOnTensorCores;
#endif
    return kPortable;
}

inline int64_t forward_workspace(const Forward& f) {
    if (!valid(f)) return 0;
#ifndef KW_PORTABLE_ONLY
    const int64_t path = forward_path(f);
    if (path != kPortable) return workspace_of(f, sm90::parts_of_image(f), path == kStoredOnce).bytes;
#endif
    return workspace_of(f, sizes_of(f).tiles, true).bytes;
}

// cudaErrorInvalidValue for what it cannot do.
inline cudaError_t forward(const Forward& f) {
    if (!valid(f)) return cudaErrorInvalidValue;
    const int64_t path = forward_path(f);
    if (path == kPortable) return portable(f);
#ifndef KW_PORTABLE_ONLY
    if (sm90::takes(f)) return sm90::forward(f, path == kStoredOnce);
#endif
    return cudaErrorInvalidValue;
}

}  // namespace kernelwright::conv_logsumexp
