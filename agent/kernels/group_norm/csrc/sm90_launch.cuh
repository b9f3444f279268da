// Host side of the streamed path: supported calls, formation of teams, and launches.
//
// The launches are cooperative, so that blocks that wait for each other are resident together. CUDA graphs can capture
// cooperative launches.
#pragma once

#include <algorithm>

#include "sizes.cuh"
#include "sm90_stream_backward.cuh"
#include "sm90_stream_forward.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int64_t kRoomBytes = 64 * 1024 * 1024;  // maximum of x and dy for evict-first; above it there is no gain
constexpr int64_t kShareBytes = 64 * 1024;  // approximate bytes of a row per SM: two more such shares fit into the ring
constexpr int64_t kLongRow = 1024 * 1024;   // bytes; half of kShareBytes per SM for longer rows: all wait for the first
constexpr int kClearThreads = 256;

inline int attribute(cudaDeviceAttr which, int64_t device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, static_cast<int>(device)) == cudaSuccess ? value : 0;
}

inline bool on_16_bytes(const void* tensor) { return reinterpret_cast<uintptr_t>(tensor) % 16 == 0; }

// Forms teams for a call with chunks of `chunk` bytes: the number of teams that takes the least time, each with as many
// SMs as it can use. Returns no teams if a row does not fit.
template <class Call>
Share share_of(const Call& call, int64_t chunk) {
    const int64_t elements = call.channels / call.groups * call.spatial;
    const int64_t rows = call.n * call.groups;
    const int sms = std::min(attribute(cudaDevAttrMultiProcessorCount, call.device), kMaxMembers);
    Share share = {};
    share.bytes = elements * element_bytes(call.dtype);
    share.rows = static_cast<int>(rows);
    share.inverse = 1.0 / static_cast<double>(elements);
    share.spatial = static_cast<int>(call.spatial);
    share.groups = static_cast<int>(call.groups);
    share.group_channels = static_cast<int>(call.channels / call.groups);
    share.by_spatial = Divisor<int>(call.spatial);
    share.by_groups = Divisor<int>(call.groups);
    const int64_t chunks = ceil_div(share.bytes, chunk);
    if (sms == 0 || rows > kMaxGrid || chunks > int64_t{kMaxMembers} * kSlots) return share;
    share.chunks = static_cast<int>(chunks);

    const int64_t of_member = share.bytes >= kLongRow ? kShareBytes / 2 : kShareBytes;
    const int64_t few = std::min(rows, sms / std::min<int64_t>(sms, ceil_div(share.bytes, of_member)));
    int teams = 0;
    for (int more = static_cast<int>(few); more <= std::min(few + few / 2, rows); ++more) {
        const int members = sms / more;
        const bool is_faster = ceil_div(rows, more) * share.members < ceil_div(rows, std::max(teams, 1)) * members;
        if (teams == 0 || is_faster) teams = more, share.members = members;
    }
    share.members = static_cast<int>(std::min<int64_t>(share.members, chunks / 2));
    if (share.members > 0 && ceil_div(chunks, share.members) <= kSlots) share.teams = teams;
    return share;
}

inline Share share_of(const Forward& f) { return share_of(f, kSlotBytes); }

// Returns true if x and dy, which are not read again after backward, should be evicted from L2 first.
inline bool is_last_read(const Backward& b) {
    return 2 * b.n * b.channels * b.spatial * element_bytes(b.dtype) <= kRoomBytes;
}

inline Share share_of(const Backward& b) {
    Share share = share_of(b, kPairBytes);
    share.is_last_read = is_last_read(b);
    return share;
}

template <class Call>
bool takes_sizes(const Call& call) {
    return call.layout == kContiguous && call.channels <= kMaxGrid && call.spatial <= kMaxGrid &&
           attribute(cudaDevAttrComputeCapabilityMajor, call.device) == 9 && share_of(call).teams > 0;
}

inline bool takes(const Forward& f) {
    return on_16_bytes(f.x) && on_16_bytes(f.y) && on_16_bytes(f.residual) &&
           f.channels / f.groups * f.spatial * element_bytes(f.dtype) % 16 == 0 &&
           f.spatial * element_bytes(f.dtype) >= 16 && takes_sizes(f);
}

inline bool takes(const Backward& b) {
    return b.residual == nullptr && b.dresidual == nullptr && b.dx != nullptr && on_16_bytes(b.x) && on_16_bytes(b.dy) &&
           on_16_bytes(b.dx) && b.channels / b.groups * b.spatial * element_bytes(b.dtype) % 16 == 0 &&
           b.spatial * element_bytes(b.dtype) >= kPairBytes && takes_sizes(b);
}

// Returns the bytes of the cells of all teams, at the beginning of the workspace.
template <class Call>
int64_t cells_bytes(const Call& call) {
    return aligned(call.n * call.groups * share_of(call).members * int64_t{sizeof(Pair)});
}

inline int64_t workspace(const Forward& f) { return cells_bytes(f); }

inline int64_t workspace(const Backward& b) {
    return cells_bytes(b) + b.n * b.groups * share_of(b).chunks * int64_t{2 * sizeof(Sums)};
}

// Sets the cells to kUnwritten. This is a kernel, since it can start while the previous kernel finishes; a memset would
// wait.
__global__ void __launch_bounds__(kClearThreads) clear_cells(uint4* cells, int count) {
    await_earlier();
    const int i = blockIdx.x * kClearThreads + threadIdx.x;
    if (i < count) cells[i] = {kUnwritten, kUnwritten, kUnwritten, kUnwritten};
}

template <class Call, class Kernel, class... Rest>
cudaError_t launch(const Call& call, Kernel kernel, const Share& share, Rest... rest) {
    double* cells = static_cast<double*>(call.workspace);
    const int64_t places = cells_bytes(call) / int64_t{sizeof(uint4)};
    cudaError_t error = launched(clear_cells, static_cast<unsigned>(ceil_div(places, kClearThreads)), kClearThreads,
                                 call.stream, static_cast<uint4*>(call.workspace), static_cast<int>(places));
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 kSharedBytes);
    if (error != cudaSuccess) return error;
    const void* arguments[] = {&call, &share, &cells, &rest...};
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), share.teams * share.members, kThreads,
                                       const_cast<void**>(arguments), kSharedBytes, call.stream);
}

template <typename T>
cudaError_t forward_of(const Forward& f) {
    return launch(f, stream_forward<T>, share_of(f));
}

// Launches the reduction to dweight and dbias, if wanted.
template <typename T>
cudaError_t launch_channels(const Backward& b, const Sums* sums, PlaneParts parts) {
    if (b.dweight == nullptr && b.dbias == nullptr) return cudaSuccess;
    parts.most = static_cast<int>(ceil_div(parts.plane, parts.part)) + (parts.plane % parts.part == 0 ? 0 : 1);
    parts.group_channels = static_cast<int>(b.channels / b.groups);
    const int team = power_of_two(std::max<int64_t>(b.n * parts.most, 2), kChannelThreads);
    const auto blocks = static_cast<unsigned>(ceil_div(b.channels, kChannelThreads / team));
    return launched(channel_gradients<T>, blocks, kChannelThreads, b.stream, b, sums, parts, team);
}

template <typename T>
cudaError_t backward_of(const Backward& b) {
    const Share share = share_of(b);
    Sums* sums = reinterpret_cast<Sums*>(static_cast<char*>(b.workspace) + cells_bytes(b));
    const cudaError_t error = launch(b, stream_backward<T>, share, sums);
    if (error != cudaSuccess) return error;
    return launch_channels<T>(b, sums, {static_cast<int>(b.spatial), static_cast<int>(kPairBytes / sizeof(T)), share.chunks, 2});
}

inline cudaError_t forward(const Forward& f) {
    return with_dtype(f.dtype, [&](auto element) { return forward_of<decltype(element)>(f); });
}

inline cudaError_t backward(const Backward& b) {
    return with_dtype(b.dtype, [&](auto element) { return backward_of<decltype(element)>(b); });
}

}  // namespace kernelwright::group_norm::sm90
