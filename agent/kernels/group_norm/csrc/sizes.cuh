// Constants and helpers of the launchers' size computations.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "../../csrc/element.cuh"
#include "interface.h"

namespace kernelwright::group_norm {

constexpr int64_t kSms = 128;              // SMs of an sm_90 GPU, approximately
constexpr int64_t kLeastBytes = 8 * 1024;  // minimum bytes per block of a cluster, if the group has as much

constexpr int64_t kHeldBytes = 108 * 1024;  // maximum bytes per block of a cluster, so that two blocks fit on an SM

// Thresholds between the paths on sm_90, in bytes of x (forward) or x and dy (backward).
constexpr int64_t kLeastOfMany = 2 * 1024;         // minimum bytes of a group for the cluster path if groups are many
constexpr int64_t kAtOnceBytes = 8 * kHeldBytes;   // maximum group of x whose blocks fit two on an SM
constexpr int64_t kHeldAtOnce = 27 * 1024 * 1024;  // bytes of all groups that clusters hold at once
constexpr int64_t kStreamedBytes = 128 * 1024;     // minimum group of x and dy for streaming, if all groups exceed kHeldAtOnce

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int64_t aligned(int64_t bytes) { return ceil_div(bytes, 256) * 256; }

// Returns the smallest power of two that is at least `value`, between 1 and `most`.
inline int power_of_two(int64_t value, int most) {
    int power = 1;
    while (power < value && power < most) power *= 2;
    return power;
}

inline int64_t element_bytes(int64_t dtype) { return dtype == kFloat32 ? 4 : 2; }

// Returns the lanes of a pack in the contiguous layout: 16 bytes. Returns 1 if the tensors differ in alignment, or if
// stretches are so short that most packs would be partial.
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
