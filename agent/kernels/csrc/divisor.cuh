// Quotients by a number that is the same for a whole launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

// a / by: for an `a` of 31 bits the upper half of a product, where a division takes ten times as long.
// Granlund and Montgomery, "Division by invariant integers using multiplication" (1994).
struct Divisor {
    int64_t by;
    uint32_t factor, shift;

    explicit Divisor(int64_t divisor) : by(divisor), factor(0), shift(31) {
        if (by > INT32_MAX) return;
        for (shift = 0; (int64_t{1} << shift) < by;) ++shift;
        factor = uint32_t((((uint64_t{1} << shift) - uint64_t(by)) << 32) / uint64_t(by) + 1);
    }

    __device__ __forceinline__ int64_t quotient(int64_t a) const {
        return a <= INT32_MAX ? (__umulhi(uint32_t(a), factor) + uint32_t(a)) >> shift : a / by;
    }
};

}  // namespace kernelwright
