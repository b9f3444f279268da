// Division of indices by a divisor known on the host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

// Divides n < 2^31 by `by` with a multiplication, a sum and a shift, since GPUs have no integer division. Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication" (1994).
template <typename Index>
struct Divisor {
    unsigned by, factor, shift;

    explicit Divisor(int64_t number) : by(unsigned(number)), shift(0) {  // number is from 1 to 2^31
        while ((uint64_t{1} << shift) < by) ++shift;
        factor = unsigned((((uint64_t{1} << shift) - by) << 32) / by + 1);
    }

    __device__ __forceinline__ unsigned of(unsigned n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// Divides n < 2^63. The compiler's own 64-bit division takes some 100 instructions.
template <>
struct Divisor<int64_t> {
    int64_t by;
    uint64_t factor;
    unsigned shift;

    explicit Divisor(int64_t number) : by(number), shift(0) {  // number is from 1 to 2^62
        while ((uint64_t{1} << shift) < uint64_t(by)) ++shift;
        const uint64_t above = (uint64_t{1} << shift) - uint64_t(by);
        factor = uint64_t((static_cast<unsigned __int128>(above) << 64) / uint64_t(by) + 1);
    }

    __device__ __forceinline__ int64_t of(int64_t n) const {
        return int64_t((__umul64hi(uint64_t(n), factor) + uint64_t(n)) >> shift);
    }
};

// Returns true if `count` items fit 32-bit indices, as Divisor needs. Kernels with vector loads only run on tensors
// that do; larger tensors are handled element by element.
inline bool is_narrow(int64_t count) { return count <= INT32_MAX; }

}  // namespace kernelwright
