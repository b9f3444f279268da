// How a tensor core adds up, as far as is known (docs/tensor-cores.md). Part of kw/ptx.h.
#pragma once

#include <stdint.h>

namespace matrix {

typedef double Four __attribute__((vector_size(32)));
typedef int64_t FourWords __attribute__((vector_size(32)));
typedef int32_t FourInts __attribute__((vector_size(16)));

#define KW_SUM static inline __attribute__((always_inline, unused, no_sanitize("thread")))

// To a float with that many bits behind the first, cutting off what does not fit.
KW_SUM float cut(double x, int kept) {
    const double size = __builtin_fabs(x);
    if (size >= 0x1p128) return static_cast<float>(x);
    if (kept < 23 && size >= 0x1p-126) {
        const uint64_t mask = ~((uint64_t{1} << (52 - kept)) - 1);
        x = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & mask);
    }
    const float y = static_cast<float>(x);
    if (__builtin_fabs(static_cast<double>(y)) <= size) return y;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, y) - 1);
}

// start + a[0] b[0] + ... + a[Count - 1] b[Count - 1], with exact products: all summands are aligned with the largest
// and cut off `kept` bits behind its first, and their exact sum is cut off to a float.
template <int Count>
KW_SUM float block_sum(const double* a, const double* b, float start, int kept) {
    static_assert(Count % 4 == 0 && Count <= 32, "whole vectors, sums of 32 bits");
    Four products[Count / 4];
    Four plain = {start, 0, 0, 0};
    FourWords largest = {};
    for (int k = 0; k < Count / 4; k++) {
        Four x, y;
        __builtin_memcpy(&x, a + 4 * k, sizeof x);
        __builtin_memcpy(&y, b + 4 * k, sizeof y);
        products[k] = x * y;
        plain += products[k];
        const FourWords size = (FourWords)products[k] & 0x7fffffffffffffff;
        largest = size > largest ? size : largest;
    }
    const double whole = plain[0] + plain[1] + plain[2] + plain[3];
    if (!(__builtin_fabs(whole) <= 0x1p1000)) {
        return __builtin_isnan(whole) ? __builtin_bit_cast(float, 0x7fffffffu) : static_cast<float>(whole);
    }
    int64_t top = __builtin_bit_cast(int64_t, __builtin_fabs(static_cast<double>(start)));
    for (int k = 0; k < 4; k++) top = largest[k] > top ? largest[k] : top;
    if (top == 0) return static_cast<float>(whole);
    const double power = __builtin_bit_cast(double, top & 0x7ff0000000000000);
    const double unit = power / static_cast<double>(1 << kept);
    const double scale = 1 / unit;
    FourInts sum = {static_cast<int32_t>(start * scale), 0, 0, 0};
    for (int k = 0; k < Count / 4; k++) sum += __builtin_convertvector(products[k] * scale, FourInts);
    return cut(static_cast<double>(int64_t{sum[0]} + sum[1] + sum[2] + sum[3]) * unit, kept);
}

}  // namespace matrix
