// Integer instructions. Part of kw/ptx.h.
#pragma once

KW_PTX uint32_t minimum_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

template <class T, class Wide>
KW_PTX T clamp_wide(Wide value) {
    constexpr bool is_signed = static_cast<T>(-1) < 0;
    constexpr T least = is_signed ? static_cast<T>(T{1} << (sizeof(T) * 8 - 1)) : T{0};
    constexpr T greatest = static_cast<T>(~least);
    return value < static_cast<Wide>(least) ? least : value > static_cast<Wide>(greatest) ? greatest : static_cast<T>(value);
}
template <class T, class U>
KW_PTX T clamp_to(U value) { return clamp_wide<T>(static_cast<__int128>(value)); }
KW_PTX int32_t add_saturated(int32_t a, int32_t b) { return clamp_wide<int32_t>(int64_t{a} + b); }
KW_PTX int32_t sub_saturated(int32_t a, int32_t b) { return clamp_wide<int32_t>(int64_t{a} - b); }

// Additions and subtractions with the carry flag CC.CF: `out` sets it, `in` uses it, `through` does both. After a
// subtraction the flag is a borrow.
template <class T> KW_PTX T add_carry_out(T a, T b, uint32_t& carry) { T r; carry = __builtin_add_overflow(a, b, &r); return r; }
template <class T> KW_PTX T sub_carry_out(T a, T b, uint32_t& carry) { T r; carry = __builtin_sub_overflow(a, b, &r); return r; }
template <class T> KW_PTX T add_carry_in(T a, T b, uint32_t carry) { return a + b + carry; }
template <class T> KW_PTX T sub_carry_in(T a, T b, uint32_t carry) { return a - b - carry; }
template <class T>
KW_PTX T add_carry_through(T a, T b, uint32_t& carry) {
    T sum, total;
    const bool first = __builtin_add_overflow(a, b, &sum);
    carry = __builtin_add_overflow(sum, static_cast<T>(carry), &total) | first;
    return total;
}
template <class T>
KW_PTX T sub_carry_through(T a, T b, uint32_t& carry) {
    T difference, total;
    const bool first = __builtin_sub_overflow(a, b, &difference);
    carry = __builtin_sub_overflow(difference, static_cast<T>(carry), &total) | first;
    return total;
}

KW_PTX int16_t product_high(int16_t a, int16_t b) { return static_cast<int16_t>((int32_t{a} * b) >> 16); }
KW_PTX uint16_t product_high(uint16_t a, uint16_t b) { return static_cast<uint16_t>((uint32_t{a} * b) >> 16); }
KW_PTX int32_t product_high(int32_t a, int32_t b) { return static_cast<int32_t>((int64_t{a} * b) >> 32); }
KW_PTX uint32_t product_high(uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); }
KW_PTX int64_t product_high(int64_t a, int64_t b) { return static_cast<int64_t>((static_cast<__int128>(a) * b) >> 64); }
KW_PTX uint64_t product_high(uint64_t a, uint64_t b) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
KW_PTX uint32_t low24(uint32_t x) { return x & 0xffffff; }
KW_PTX uint32_t low24(int32_t x) { return static_cast<uint32_t>(static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8); }

// div and rem. The most negative number divided by -1 wraps, as on a GPU. A division by zero faults and is reported.
template <class T> KW_PTX T quotient(T a, T b) {
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
}
template <class T> KW_PTX T remainder(T a, T b) {
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
}

template <class T> KW_PTX T shift_left(T value, uint32_t amount) {
    return amount >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(value) << amount);
}
template <class T> KW_PTX T shift_right(T value, uint32_t amount) {
    constexpr uint32_t bits = sizeof(T) * 8;
    if (amount < bits) return static_cast<T>(value >> amount);
    return static_cast<T>(-1) < 0 ? static_cast<T>(value >> (bits - 1)) : T{0};
}
KW_PTX uint32_t funnel_left(uint32_t lower, uint32_t upper, uint32_t amount) {
    return static_cast<uint32_t>(((uint64_t{upper} << 32 | lower) << amount) >> 32);
}
KW_PTX uint32_t funnel_right(uint32_t lower, uint32_t upper, uint32_t amount) {
    return static_cast<uint32_t>((uint64_t{upper} << 32 | lower) >> amount);
}

KW_PTX uint32_t count_bits(uint32_t x) { return static_cast<uint32_t>(__builtin_popcount(x)); }
KW_PTX uint32_t count_bits(uint64_t x) { return static_cast<uint32_t>(__builtin_popcountll(x)); }
KW_PTX uint32_t leading_zeros(uint32_t x) { return x == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(x)); }
KW_PTX uint32_t leading_zeros(uint64_t x) { return x == 0 ? 64 : static_cast<uint32_t>(__builtin_clzll(x)); }
KW_PTX uint32_t reverse_bits(uint32_t x) {
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    return (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
}
KW_PTX uint64_t reverse_bits(uint64_t x) {
    return uint64_t{reverse_bits(static_cast<uint32_t>(x))} << 32 | reverse_bits(static_cast<uint32_t>(x >> 32));
}
// bfind: the position of the highest bit that differs from the sign bit; all ones if there is no such bit.
KW_PTX uint32_t find_bit(uint32_t x, bool as_shift) {
    if (x == 0) return ~0u;
    const uint32_t position = 31 - leading_zeros(x);
    return as_shift ? 31 - position : position;
}
KW_PTX uint32_t find_bit(uint64_t x, bool as_shift) {
    if (x == 0) return ~0u;
    const uint32_t position = 63 - leading_zeros(x);
    return as_shift ? 63 - position : position;
}
KW_PTX uint32_t find_bit(int32_t x, bool as_shift) { return find_bit(static_cast<uint32_t>(x < 0 ? ~x : x), as_shift); }
KW_PTX uint32_t find_bit(int64_t x, bool as_shift) { return find_bit(static_cast<uint64_t>(x < 0 ? ~x : x), as_shift); }

// bfe: returns a field of a, whose position and length are the low bytes of b and c. Signed fields are sign-extended.
template <class T> KW_PTX T extract(T a, uint32_t b, uint32_t c) {
    constexpr uint32_t bits = sizeof(T) * 8;
    const uint32_t position = b & 255, length = c & 255;
    if (length == 0) return 0;
    const uint32_t last = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
    const bool fill = static_cast<T>(-1) < 0 && (static_cast<uint64_t>(a) >> last & 1) != 0;
    const uint64_t field = position < bits ? static_cast<uint64_t>(shift_right(a, position)) : fill ? ~uint64_t{0} : 0;
    if (length >= 64 || position + length > bits) {
        const uint32_t taken = position < bits ? bits - position : 0;
        const uint64_t mask = taken >= 64 ? ~uint64_t{0} : (uint64_t{1} << taken) - 1;
        const uint64_t wide = fill ? field | ~mask : field & mask;
        return static_cast<T>(length >= 64 ? wide : fill ? wide | ~((uint64_t{1} << length) - 1) : wide & ((uint64_t{1} << length) - 1));
    }
    const uint64_t mask = (uint64_t{1} << length) - 1;
    return static_cast<T>(fill ? field | ~mask : field & mask);
}
// bfi: returns b with a field, whose position and length are the low bytes of c and d, replaced by the low bits of a.
template <class T> KW_PTX T insert(T a, T b, uint32_t c, uint32_t d) {
    constexpr uint32_t bits = sizeof(T) * 8;
    const uint32_t position = c & 255, length = d & 255;
    if (length == 0 || position >= bits) return b;
    const T ones = length >= bits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(ones << position);
    return static_cast<T>((b & ~mask) | (static_cast<T>(a << position) & mask));
}

KW_PTX uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t chosen = selector >> (4 * i) & 15;
        uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (chosen & 7))) & 255;
        if ((chosen & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}
KW_PTX uint32_t permute_f4e(uint32_t a, uint32_t b, uint32_t s) { return permute(a, b, 0x3210 + 0x1111 * (s & 3)); }
KW_PTX uint32_t permute_b4e(uint32_t a, uint32_t b, uint32_t s) {
    static const uint16_t selectors[] = {0x5670, 0x6701, 0x7012, 0x0123};
    return permute(a, b, selectors[s & 3]);
}
KW_PTX uint32_t permute_rc8(uint32_t a, uint32_t b, uint32_t s) { return permute(a, b, 0x1111 * (s & 3)); }
KW_PTX uint32_t permute_ecl(uint32_t a, uint32_t b, uint32_t s) {
    static const uint16_t selectors[] = {0x3210, 0x3211, 0x3222, 0x3333};
    return permute(a, b, selectors[s & 3]);
}
KW_PTX uint32_t permute_ecr(uint32_t a, uint32_t b, uint32_t s) {
    static const uint16_t selectors[] = {0x0000, 0x1110, 0x2210, 0x3210};
    return permute(a, b, selectors[s & 3]);
}
KW_PTX uint32_t permute_rc16(uint32_t a, uint32_t b, uint32_t s) { return permute(a, b, (s & 1) != 0 ? 0x3232 : 0x1010); }

// lop3: bit i of Table is the result for bits of a, b and c that form the number i, with a's bit the highest.
template <int Table> KW_PTX uint32_t table_of_bits(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    if (Table & 1) result |= ~a & ~b & ~c;
    if (Table & 2) result |= ~a & ~b & c;
    if (Table & 4) result |= ~a & b & ~c;
    if (Table & 8) result |= ~a & b & c;
    if (Table & 16) result |= a & ~b & ~c;
    if (Table & 32) result |= a & ~b & c;
    if (Table & 64) result |= a & b & ~c;
    if (Table & 128) result |= a & b & c;
    return result;
}

template <class A, class B> KW_PTX uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; i++) {
        c += static_cast<uint32_t>(static_cast<A>(a >> (8 * i)) * static_cast<B>(b >> (8 * i)));
    }
    return c;
}
