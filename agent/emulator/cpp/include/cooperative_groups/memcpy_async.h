// cooperative_groups::memcpy_async, in which the threads of a group share a copy, and the waits for it.
#pragma once

#include "../cooperative_groups.h"
#include "kw/device_scope.h"

namespace cooperative_groups {

// Copies `bytes` bytes.
template <class Group, class To, class From, class Size>
KW_DEVICE void memcpy_async(const Group& group, To* to, const From* from, const Size& bytes) {
    kw::copy_by_group(group, to, from, bytes);
    kw_commit_copies();
}

// Copies as many elements as the smaller of `room` and `count`.
template <class Group, class To, class ToCount, class From, class FromCount>
KW_DEVICE void memcpy_async(const Group& group, To* to, const ToCount& room, const From* from, const FromCount& count) {
    const size_t elements = static_cast<size_t>(room) < static_cast<size_t>(count) ? room : count;
    memcpy_async(group, to, from, elements * sizeof(To));
}

template <class Group>
void wait(const Group& group, int line = __builtin_LINE()) {
    kw_wait_all_copies();
    group.sync(line);
}

template <unsigned Prior, class Group>
void wait_prior(const Group& group, int line = __builtin_LINE()) {
    kw_wait_copies(Prior);
    group.sync(line);
}

}  // namespace cooperative_groups
