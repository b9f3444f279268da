// Shared parts of <cuda/barrier> and <cuda/pipeline>: thread scopes, sizes with an alignment, copies by a group.
#pragma once

#include "kw/device.h"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t Alignment>
struct aligned_size_t {
    static constexpr size_t align = Alignment;
    size_t value;
    explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    constexpr operator size_t() const { return value; }
};

}  // namespace cuda

namespace kw {

// Copies bytes asynchronously by the threads of a group. Thread k copies pieces k, k + size(), k + 2 size(), ...
template <class Group>
KW_DEVICE void copy_by_group(const Group& group, void* to, const void* from, size_t bytes) {
    const uintptr_t both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
    const size_t piece = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
    for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece) {
        kw_copy_async(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, piece, 0);
    }
}

}  // namespace kw
