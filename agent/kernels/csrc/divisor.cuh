// Division of indices by a number that the host knows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

// n / by of an n below 2^31: a multiplication, a sum and a shift, where the processor has no division. Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication" (1994).
template <typename Index>
struct Divisor {
    unsigned by, factor, shift;

    explicit Divisor(int64_t number) : by(unsigned(number)), shift(0) {  // from 1 to 2^31
        while ((uint64_t{1} << shift) < by) ++shift;
        factor = unsigned((((uint64_t{1} << shift) - by) << 32) / by + 1);
    }

    __device__ __forceinline__ unsigned of(unsigned n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// Of indices that need 64 bits.
template <>
struct Divisor<int64_t> {
    int64_t by;

    explicit Divisor(int64_t number) : by(number) {}

    __device__ __forceinline__ int64_t of(int64_t n) const { return n / by; }
};

// Of indices that need 64 bits at the largest sizes alone.
struct AnyDivisor {
    Divisor<unsigned> narrow;
    int64_t by;

    explicit AnyDivisor(int64_t number) : narrow(number <= INT32_MAX ? number : int64_t{1} << 31), by(number) {}

    __device__ __forceinline__ int64_t of(int64_t n) const { return n <= INT32_MAX ? narrow.of(unsigned(n)) : n / by; }
};

}  // namespace kernelwright
