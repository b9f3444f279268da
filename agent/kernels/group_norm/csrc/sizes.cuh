// What the launchers count with.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "../../csrc/element.cuh"
#include "interface.h"

namespace kernelwright::group_norm {

constexpr int64_t kSms = 128;              // that every GPU of sm_90 has, about
constexpr int64_t kLeastBytes = 8 * 1024;  // that a block of a cluster holds, where its group has as much

constexpr int64_t kHeldBytes = 108 * 1024;  // that a block of a cluster holds: two blocks stand on an SM

// What decides between paths on sm_90, in bytes of x, or of x and dy.
constexpr int64_t kLeastOfMany = 2 * 1024;         // a group of many that gains by a cluster's path
constexpr int64_t kAtOnceBytes = 8 * kHeldBytes;   // a group of x whose blocks stand two on an SM, at most
constexpr int64_t kHeldAtOnce = 27 * 1024 * 1024;  // all groups that clusters hold at once
constexpr int64_t kStreamedBytes = 128 * 1024;     // a group of x and dy that is streamed where all are more than that

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int64_t aligned(int64_t bytes) { return ceil_div(bytes, 256) * 256; }

// The smallest power of two that is at least `value`, between 1 and `most`.
inline int power_of_two(int64_t value, int most) {
    int power = 1;
    while (power < value && power < most) power *= 2;
    return power;
}

inline int64_t element_bytes(int64_t dtype) { return dtype == kFloat32 ? 4 : 2; }

// Lanes of a pack of the contiguous layout: 16 bytes, or one element where the tensors do not begin at the same place
// between two packs, or where stretches are so short that most packs would be cut.
inline int lanes(int64_t dtype, int64_t stretch, std::initializer_list<const void*> tensors) {
    const int v = static_cast<int>(16 / element_bytes(dtype));
    if (stretch < 2 * v) return 1;
    const void* x = *tensors.begin();
    for (const void* tensor : tensors) {
        if (tensor == nullptr) continue;
        if ((reinterpret_cast<uintptr_t>(tensor) - reinterpret_cast<uintptr_t>(x)) % 16 != 0) return 1;
    }
    return v;
}

inline int forward_lanes(const Forward& f) {
    return lanes(f.dtype, f.channels / f.groups * f.spatial, {f.x, f.y, f.residual});
}

inline int backward_lanes(const Backward& b, int64_t stretch) {
    return lanes(b.dtype, stretch, {b.x, b.dy, b.residual, b.dx, b.dresidual});
}

}  // namespace kernelwright::group_norm
