// cooperative_groups::reduce over a tile or coalesced threads, and its operators.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus { T operator()(const T& a, const T& b) const { return a + b; } };
template <class T> struct less { T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(const T& a, const T& b) const { return a & b; } };
template <class T> struct bit_or { T operator()(const T& a, const T& b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(const T& a, const T& b) const { return a ^ b; } };

// Reduces by a butterfly of shuffles, as NVIDIA's version does, so every lane gets the same value.
template <unsigned Size, class Parent, class T, class Operator>
T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operator op, int line = __builtin_LINE()) {
    for (unsigned distance = Size / 2; distance > 0; distance /= 2) {
        value = op(value, tile.shfl_xor(value, distance, line));
    }
    return value;
}

template <class T, class Operator>
T reduce(const coalesced_group& group, T value, Operator op, int line = __builtin_LINE()) {
    T result = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); rank++) {
        result = op(result, group.shfl(value, static_cast<int>(rank), line));
    }
    return result;
}

}  // namespace cooperative_groups
