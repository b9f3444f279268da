// Host side of the designs for sm_90: which calls they take, how the blocks form teams, and the launches.
//
// All are cooperative launches or clusters, so the blocks that wait for each other run at once. Both can be captured
// in a CUDA graph, and so can the fill that goes before.
//
// A library gets the designs that a call may take; the bench, which defines KW_ALL_DESIGNS, all of them.
#pragma once

#include <algorithm>

#include "sizes.cuh"
#include "sm90_held.cuh"
#include "sm90_held_backward.cuh"
#include "sm90_l2.cuh"

namespace kernelwright::group_norm::sm90 {

// What Path means beyond kPortable.
enum Design : int64_t {
    kHeld6 = 2,       // six chunks of a warp in registers, one block of 512 threads on an SM
    kHeld5 = 3,
    kHeld4 = 4,
    kHeld3 = 5,
    kRing = 6,        // none in registers; activations and residuals go here
    kHeld6Twice = 7,  // two blocks of 256 threads on an SM, of different teams
    kHeld5Twice = 8,
    kCluster = 9,     // sums through a cluster's shared memory; groups of up to 3 MB
    kL2One = 10,      // second read from L2, one team
    kL2Two = 11,
    kL2Three = 12,
    kDesigns = 13,
};

inline bool is_compiled(int64_t design) {
#ifdef KW_ALL_DESIGNS
    return design >= kHeld6 && design < kDesigns;
#else
    return design == kHeld5 || design == kRing;
#endif
}

inline int attribute(cudaDeviceAttr which, int64_t device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, static_cast<int>(device)) == cudaSuccess ? value : 0;
}

inline bool is_l2(int64_t design) { return design >= kL2One && design <= kL2Three; }

inline int threads_of(int64_t design) {
    if (is_l2(design)) return kL2Threads;
    return design == kHeld6Twice || design == kHeld5Twice ? 256 : 512;
}

inline int64_t group_bytes(const Forward& f) { return f.channels / f.groups * f.spatial * element_bytes(f.dtype); }

inline bool on_16_bytes(const void* tensor) { return reinterpret_cast<uintptr_t>(tensor) % 16 == 0; }

// Teams of `design` for this call; no teams where the group does not fit.
inline Team team_of(const Forward& f, int64_t design) {
    const int sms = attribute(cudaDevAttrMultiProcessorCount, f.device);
    const int threads = threads_of(design);
    const int warps = threads / kWarp;
    const int64_t rows = f.n * f.groups;
    Team team = {0, 0, 0, group_bytes(f), 1.0 / static_cast<double>(f.channels / f.groups * f.spatial)};
    const int64_t chunks = ceil_div(team.bytes, kChunkBytes);
    const int64_t blocks = int64_t{sms} * (is_l2(design) ? kL2Blocks : 512 / threads);
    int64_t members = ceil_div(chunks, int64_t{warps} * kShare);
    if (is_l2(design)) members = blocks / (design - kL2One + 1);
    if (members > blocks || (design == kCluster && members > kMaxCluster)) return team;
    team.chunks = static_cast<int>(chunks);
    team.teams = static_cast<int>(std::min(blocks / members, rows));
    // Clusters of a power of two leave the fewest SMs of a GPC unused; others spread over all that there are.
    team.members = design == kCluster ? power_of_two(members, kMaxCluster)
                                      : static_cast<int>(std::min(blocks / team.teams, ceil_div(chunks, warps)));
    if (design == kCluster) team.teams = static_cast<int>(std::min(blocks / team.members, rows));
    return team;
}

// Whether `design` can take the call at all.
inline bool takes(const Forward& f, int64_t design) {
    if (!is_compiled(design) || f.layout != kContiguous) return false;
    if (attribute(cudaDevAttrComputeCapabilityMajor, f.device) != 9) return false;
    if (!on_16_bytes(f.x) || !on_16_bytes(f.y) || !on_16_bytes(f.residual)) return false;
    if (f.spatial * element_bytes(f.dtype) % 16 != 0 || f.n * f.groups > kMaxGrid) return false;
    if (group_bytes(f) / 16 > kMaxGrid || f.channels > kMaxGrid) return false;
    if (design != kRing && (f.act != kNone || f.residual != nullptr)) return false;
    return team_of(f, design).teams > 0;
}

inline int64_t workspace(const Forward& f, int64_t design) {
    return f.n * f.groups * team_of(f, design).members * int64_t{sizeof(Pair)};
}

using Kernel = void (*)(const Forward, const Team, double*);

template <typename T>
Kernel kernel_of(int64_t design) {
    constexpr Exchange kGlobal = Exchange::kGlobal;
    switch (design) {
#ifdef KW_ALL_DESIGNS
        case kHeld6: return held_forward<T, 512, 6, true, kGlobal>;
        case kHeld4: return held_forward<T, 512, 4, true, kGlobal>;
        case kHeld3: return held_forward<T, 512, 3, true, kGlobal>;
        case kHeld6Twice: return held_forward<T, 256, 6, true, kGlobal>;
        case kHeld5Twice: return held_forward<T, 256, 5, true, kGlobal>;
        case kCluster: return held_forward<T, 512, 5, true, Exchange::kCluster>;
        case kL2One:
        case kL2Two:
        case kL2Three: return l2_forward<T>;
#endif
        case kHeld5: return held_forward<T, 512, 5, true, kGlobal>;
        case kRing: return held_forward<T, 512, 0, false, kGlobal>;
        default: return nullptr;
    }
}

inline Kernel kernel_of(int64_t design, int64_t dtype) {
#if KW_DTYPES & 2
    if (dtype == kFloat16) return kernel_of<__half>(design);
#endif
#if KW_DTYPES & 4
    if (dtype == kBFloat16) return kernel_of<__nv_bfloat16>(design);
#endif
#if KW_DTYPES & 1
    if (dtype == kFloat32) return kernel_of<float>(design);
#endif
    return nullptr;
}

inline cudaError_t forward(const Forward& f, int64_t design) {
    Team team = team_of(f, design);
    const Kernel kernel = kernel_of(design, f.dtype);
    if (kernel == nullptr) return cudaErrorInvalidValue;
    const void* entry = reinterpret_cast<const void*>(kernel);
    const int threads = threads_of(design);
    const int shared = is_l2(design) ? 0 : ring_bytes(threads);
    double* partials = static_cast<double*>(f.workspace);
    cudaError_t error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error != cudaSuccess) return error;

    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = f.stream;
    cudaLaunchAttribute how = {};
    if (design == kCluster) {
        how.id = cudaLaunchAttributeClusterDimension;
        how.val.clusterDim.x = team.members;
        how.val.clusterDim.y = how.val.clusterDim.z = 1;
        error = cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    } else {
        how.id = cudaLaunchAttributeCooperative;
        how.val.cooperative = 1;
        error = cudaMemsetAsync(partials, kUnwritten, workspace(f, design), f.stream);
    }
    if (error != cudaSuccess) return error;
    config.gridDim = dim3(team.teams * team.members);
    config.attrs = &how;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, f, team, partials);
}

// ---- Backward: one design, by two names; kHeld5 is one block of 512 threads on an SM, kHeld5Twice two of 256.

inline int64_t group_bytes(const Backward& b) { return b.channels / b.groups * b.spatial * element_bytes(b.dtype); }

inline Team team_of(const Backward& b, int64_t design) {
    const int warps = threads_of(design) / kWarp;
    const int64_t blocks = int64_t{attribute(cudaDevAttrMultiProcessorCount, b.device)} * (512 / threads_of(design));
    const int64_t chunks = ceil_div(group_bytes(b), kChunkBytes);
    const int64_t members = ceil_div(chunks, int64_t{warps} * kPairs);
    Team team = {0, 0, 0, group_bytes(b), 1.0 / static_cast<double>(b.channels / b.groups * b.spatial)};
    if (members > blocks) return team;
    team.chunks = static_cast<int>(chunks);
    team.teams = static_cast<int>(std::min(blocks / members, b.n * b.groups));
    team.members = static_cast<int>(std::min(blocks / team.teams, ceil_div(chunks, warps)));
    return team;
}

inline bool takes(const Backward& b, int64_t design) {
    if ((design != kHeld5 && design != kHeld5Twice) || !is_compiled(design)) return false;
    if (b.layout != kContiguous || b.act != kNone) return false;
    if (attribute(cudaDevAttrComputeCapabilityMajor, b.device) != 9) return false;
    if (!on_16_bytes(b.x) || !on_16_bytes(b.dy) || !on_16_bytes(b.dx) || b.dx == nullptr) return false;
    if (b.dresidual != nullptr || b.spatial * element_bytes(b.dtype) % kChunkBytes != 0) return false;
    if (b.n * b.groups > kMaxGrid || b.channels > kMaxGrid || group_bytes(b) / 16 > kMaxGrid) return false;
    return team_of(b, design).teams > 0;
}

inline int64_t cells_bytes(const Backward& b, const Team& team) {
    return aligned(b.n * b.groups * team.members * int64_t{sizeof(Pair)});
}

inline int64_t workspace(const Backward& b, int64_t design) {
    const Team team = team_of(b, design);
    return cells_bytes(b, team) + b.n * b.groups * team.chunks * int64_t{sizeof(Sums)};
}

template <typename T, int THREADS>
cudaError_t backward_of(const Backward& b, const Team& team) {
    const auto kernel = held_backward<T, THREADS>;
    constexpr int kShared = ring_bytes(THREADS);
    double* partials = static_cast<double*>(b.workspace);
    Sums* sums = reinterpret_cast<Sums*>(static_cast<char*>(b.workspace) + cells_bytes(b, team));
    cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (error == cudaSuccess) error = cudaMemsetAsync(partials, kUnwritten, cells_bytes(b, team), b.stream);
    if (error != cudaSuccess) return error;
    cudaLaunchAttribute how = {};
    how.id = cudaLaunchAttributeCooperative;
    how.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(team.teams * team.members);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = kShared;
    config.stream = b.stream;
    config.attrs = &how;
    config.numAttrs = 1;
    error = cudaLaunchKernelEx(&config, kernel, b, team, partials, sums);
    if (error != cudaSuccess || (b.dweight == nullptr && b.dbias == nullptr)) return error;
    const int pieces = static_cast<int>(b.spatial * element_bytes(b.dtype) / kChunkBytes);
    channel_gradients<T><<<static_cast<unsigned>(b.channels), kChannelThreads, 0, b.stream>>>(b, sums, pieces);
    return cudaGetLastError();
}

template <typename T>
cudaError_t backward_of(const Backward& b, int64_t design) {
    const Team team = team_of(b, design);
#ifdef KW_ALL_DESIGNS
    if (design == kHeld5Twice) return backward_of<T, 256>(b, team);
#endif
    return backward_of<T, 512>(b, team);
}

inline cudaError_t backward(const Backward& b, int64_t design) {
#if KW_DTYPES & 1
    if (b.dtype == kFloat32) return backward_of<float>(b, design);
#endif
#if KW_DTYPES & 2
    if (b.dtype == kFloat16) return backward_of<__half>(b, design);
#endif
#if KW_DTYPES & 4
    if (b.dtype == kBFloat16) return backward_of<__nv_bfloat16>(b, design);
#endif
    return cudaErrorInvalidValue;
}

}  // namespace kernelwright::group_norm::sm90
