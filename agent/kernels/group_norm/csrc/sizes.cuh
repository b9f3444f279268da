// What the launchers count with, and which types are compiled.
#pragma once

#include <cstdint>
#include <limits>

#include "interface.h"

// Bit 1 << Dtype for each type to compile; all of them take three times as long as one.
#ifndef KW_DTYPES
#define KW_DTYPES 7
#endif

namespace kernelwright::group_norm {

constexpr int64_t kMaxGrid = std::numeric_limits<int>::max();

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int64_t aligned(int64_t bytes) { return ceil_div(bytes, 256) * 256; }

// The smallest power of two that is at least `value`, between 1 and `most`.
inline int power_of_two(int64_t value, int most) {
    int power = 1;
    while (power < value && power < most) power *= 2;
    return power;
}

inline int64_t element_bytes(int64_t dtype) { return dtype == kFloat32 ? 4 : 2; }

}  // namespace kernelwright::group_norm
