// cooperative_groups::inclusive_scan and exclusive_scan over a tile or coalesced threads.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operator = plus<T>>
T inclusive_scan(const Group& group, T value, Operator op = {}, int line = __builtin_LINE()) {
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
        const T other = group.shfl_up(value, distance, line);
        if (group.thread_rank() >= distance) value = op(other, value);
    }
    return value;
}

// The first thread gets T(). NVIDIA's version does the same for operators with the neutral element T().
template <class Group, class T, class Operator = plus<T>>
T exclusive_scan(const Group& group, T value, Operator op = {}, int line = __builtin_LINE()) {
    const T before = group.shfl_up(inclusive_scan(group, value, op, line), 1, line);
    return group.thread_rank() == 0 ? T() : before;
}

}  // namespace cooperative_groups
