// Warp-wide matrix operations: mma, ldmatrix, stmatrix, wmma. Part of kw/ptx.h.
//
// The last lane to arrive computes for all lanes. Each access is reported as an access of the lane that passed the
// address. Fragments of mma.sync are laid out as in the PTX ISA. The PTX ISA leaves the layout of wmma's fragments
// open, so it is arbitrary here. docs/tensor-cores.md describes how sums are rounded.
#pragma once

#include "kw/matrix_sum.h"

#define KW_MATRIX static inline __attribute__((unused, no_sanitize("thread")))
#define KW_MATRIX_MEMBER inline __attribute__((unused, no_sanitize("thread")))

namespace matrix {

// Element types. An element has kBits bits in registers, and value() returns the number that the bits represent.
struct F16 {
    enum { kBits = 16, kKept = 25 };
    static constexpr double kLeast = 0x1p-14;
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) { return f16_value(static_cast<uint16_t>(bits)); }
};
struct Bf16 {
    enum { kBits = 16, kKept = 25 };
    static constexpr double kLeast = 0x1p-126;
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) { return bf16_value(static_cast<uint16_t>(bits)); }
};
struct Tf32 {
    enum { kBits = 32, kKept = 25 };
    static constexpr double kLeast = 0x1p-126;
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) { return as_float(static_cast<uint32_t>(bits) & 0xffffe000u); }
};
template <int Exponent, int Fraction, int Bias>
struct Small {  // fp8
    enum { kBits = 8, kKept = 13 };
    static constexpr double kLeast = Exponent == 4 ? 0x1p-6 : 0x1p-14;
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) {
        const int exponent = static_cast<int>(bits >> Fraction) & ((1 << Exponent) - 1);
        const int fraction = static_cast<int>(bits) & ((1 << Fraction) - 1);
        const double sign = (bits & 0x80) != 0 ? -1 : 1;
        const bool top = exponent == (1 << Exponent) - 1;
        if (Fraction == 3 ? (bits & 0x7f) == 0x7f : top && fraction != 0) return __builtin_nan("");
        if (Fraction == 2 && top) return sign * __builtin_inf();
        const int whole = exponent == 0 ? fraction : fraction | 1 << Fraction;
        return sign * __builtin_ldexp(whole, (exponent == 0 ? 1 : exponent) - Bias - Fraction);
    }
};
typedef Small<4, 3, 7> E4m3;
typedef Small<5, 2, 15> E5m2;
struct F64 {
    enum { kBits = 64 };
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) { return as_double(bits); }
};
template <int Bits, bool Signed>
struct Integer {
    enum { kBits = Bits };
    typedef int64_t Value;
    KW_MATRIX int64_t value(uint64_t bits) {
        const auto low = static_cast<int64_t>(bits & ((1u << Bits) - 1));
        return Signed && (low >> (Bits - 1) & 1) != 0 ? low - (1 << Bits) : low;
    }
};
typedef Integer<8, true> S8;
typedef Integer<8, false> U8;
typedef Integer<4, true> S4;
typedef Integer<4, false> U4;
struct B1 {
    enum { kBits = 1 };
    typedef int64_t Value;
    KW_MATRIX int64_t value(uint64_t bits) { return bits & 1; }
};

// Accumulator types.
struct Float {
    enum { kBits = 32 };
    static constexpr double kLeast = 0x1p-126;
    typedef float Value;
    KW_MATRIX float made(double sum, int kept) {
        return sum != sum ? __builtin_bit_cast(float, kNaN) : cut(sum, kept < 23 ? kept : 23);
    }
    KW_MATRIX void made_four(Four sums, int kept, float* to) { cut_four(sums, kept < 23 ? kept : 23, to); }
    // Rounds to nearest, like an addition outside the tensor cores.
    KW_MATRIX float added(float x, float y) {
        const float sum = x + y;
        return sum != sum ? __builtin_bit_cast(float, kNaN) : sum;
    }
    KW_MATRIX float value(uint64_t bits) { return as_float(static_cast<uint32_t>(bits)); }
    KW_MATRIX uint64_t bits(float value) { return as_bits(value); }
};
struct Half {
    enum { kBits = 16 };
    static constexpr double kLeast = 0x1p-14;
    typedef float Value;
    KW_MATRIX float made(double sum, int) {
        const float near = f16_value(f16_bits(sum));
        return near == 0 ? 0.0f : near;
    }
    KW_MATRIX void made_four(Four sums, int kept, float* to) {
        for (int i = 0; i < 4; i++) to[i] = made(sums[i], kept);
    }
    KW_MATRIX float added(float x, float y) { return x + y; }
    KW_MATRIX float value(uint64_t bits) { return f16_value(static_cast<uint16_t>(bits)); }
    KW_MATRIX uint64_t bits(float value) { return value != value ? 0x7fff : f16_bits(value); }
};
struct Double {
    enum { kBits = 64 };
    typedef double Value;
    KW_MATRIX double value(uint64_t bits) { return as_double(bits); }
    KW_MATRIX uint64_t bits(double value) { return as_bits(value); }
};
struct Int {
    enum { kBits = 32 };
    typedef int64_t Value;
    KW_MATRIX int64_t value(uint64_t bits) { return static_cast<int32_t>(static_cast<uint32_t>(bits)); }
    KW_MATRIX uint64_t bits(int64_t value) { return static_cast<uint32_t>(value); }
};

struct Place {
    int row, column;
};

// Return the row and column of element `number` of a lane's fragment of a, b or c (PTX ISA, figures of mma.m16n8 and
// mma.m8n8). One register each of four lanes makes up a row. Further registers of a lane hold rows further down, then
// columns further right.
template <int Rows, int PerRegister>
KW_MATRIX Place fragment_of_a(int lane, int number) {
    const int element = number % PerRegister, index = number / PerRegister, down = Rows / 8;
    return {lane / 4 + 8 * (index % down), (lane % 4 + 4 * (index / down)) * PerRegister + element};
}
template <int PerRegister>
KW_MATRIX Place fragment_of_b(int lane, int number) {
    return {(lane % 4 + 4 * (number / PerRegister)) * PerRegister + number % PerRegister, lane / 4};
}
KW_MATRIX Place fragment_of_c(int lane, int number) { return {lane / 4 + 8 * (number / 2), lane % 4 * 2 + number % 2}; }

// Returns the row and column of element `number` in a lane's wmma fragment. The lanes hold consecutive elements; f16
// fragments hold each element twice.
KW_MATRIX Place dealt(int lane, int number, int each, int rows, int columns) {
    const int index = (lane * each + number) % (rows * columns);
    return {index / columns, index % columns};
}

KW_MATRIX Place flipped(Place p) { return {p.column, p.row}; }

template <class T> constexpr int per_register = T::kBits >= 32 ? 1 : 32 / T::kBits;

// Read or write element `number` of an array of registers, each of which occupies a 64-bit word.
template <int Bits>
KW_MATRIX uint64_t element(const uint64_t* registers, int number) {
    constexpr int each = Bits >= 32 ? 1 : 32 / Bits;
    if (Bits >= 32) return registers[number];
    return registers[number / each] >> (number % each * Bits) & ((uint64_t{1} << (Bits % 64)) - 1);
}
template <int Bits>
KW_MATRIX void set_element(uint64_t* registers, int number, uint64_t bits) {
    constexpr int each = Bits >= 32 ? 1 : 32 / Bits;
    if (Bits >= 32) {
        registers[number] = bits;
        return;
    }
    const int shift = number % each * Bits;
    const uint64_t mask = ((uint64_t{1} << (Bits % 64)) - 1) << shift;
    registers[number / each] = (registers[number / each] & ~mask) | (bits << shift & mask);
}

enum Combine { kMultiply, kMultiplySaturating, kXor, kAnd };

template <bool First, class T, class Other> struct Chosen { typedef T type; };
template <class T, class Other> struct Chosen<false, T, Other> { typedef Other type; };

// Row of a or column of b: its elements, and the powers of two by which their products are aligned.
template <class T, int Depth>
struct Line {
    typename T::Value value[Depth], power[Depth];
    bool special;  // true if an element is infinite or NaN

    // Sets `special`; call this once all elements are set.
    KW_MATRIX_MEMBER void seal() {
        double most = 0;
        for (int k = 0; k < Depth; k++) most = power[k] > most ? static_cast<double>(power[k]) : most;
        special = most > 0x1p1000;
    }

    // Sets element k. `As` is the format in which the tensor core takes the element.
    template <class As = T>
    KW_MATRIX_MEMBER void set(int k, typename T::Value x) {
        value[k] = x;
        if constexpr (requires { As::kLeast; }) power[k] = power_of(x, As::kLeast);
    }
};

// Returns start + a[k] * b[k] over `Count` elements from `first` on, aligned and truncated together, in D's format.
template <int Count, class A, class B, class D, int Depth>
KW_MATRIX float summed(const Line<A, Depth>& a, const Line<B, Depth>& b, int first, float start, int kept) {
    const double power = power_of(start, D::kLeast);
    const bool special = a.special || b.special || power > 0x1p1000;
    const double whole = __builtin_expect(special, 0)
                             ? special_sum<Count>(a.value + first, b.value + first, start)
                             : aligned_sum<Count>(a.value + first, a.power + first, b.value + first, b.power + first, start, power, kept);
    return D::made(whole, kept);
}

template <class D, class A, class B, int Depth>
KW_MATRIX auto fold(const Line<A, Depth>& a, const Line<B, Depth>& b, typename D::Value start, Combine how) {
    if constexpr (sizeof(start) == 4) {
        (void)how;
        return summed<Depth, A, B, D>(a, b, 0, start, A::kKept);
    } else if constexpr (A::kBits == 64) {
        for (int k = 0; k < Depth; k++) start = fused(a.value[k], b.value[k], start);
        return start;
    } else {
        for (int k = 0; k < Depth; k++) {
            const int64_t x = a.value[k], y = b.value[k];
            start += how == kXor ? x ^ y : how == kAnd ? x & y : x * y;
        }
        if (how != kMultiplySaturating) return int64_t{static_cast<int32_t>(static_cast<uint32_t>(start))};
        return start > INT32_MAX ? int64_t{INT32_MAX} : start < INT32_MIN ? int64_t{INT32_MIN} : start;
    }
}

// mma.sync of fp8, which Hopper computes as two products of f16: first over the elements with k mod 4 below 2, then
// over the other elements. The accumulator is added last.
constexpr int place_of_small(int k, int depth) { return k / 4 * 2 + k % 2 + (k % 4 < 2 ? 0 : depth / 2); }
template <class D, class A, class B, int Depth>
KW_MATRIX float fold_small(const Line<A, Depth>& a, const Line<B, Depth>& b, float start) {
    const float half = summed<Depth / 2, A, B, D>(a, b, 0, 0, F16::kKept);
    return D::added(summed<Depth / 2, A, B, D>(a, b, Depth / 2, half, F16::kKept), start);
}

enum Layout { kMma, kWmma };

// Registers of a lane's operands and results, each in a 64-bit word. InA and InB below are the elements of a and b per
// lane.
struct Operands {
    uint64_t a[8], b[8], c[8], d[8];
};

template <int M, int N, int K, int InA, int InB, class A, class B, class C, class D, Layout How, Combine Mode>
struct Product {
    static constexpr bool kSmall = A::kBits == 8 && sizeof(typename C::Value) == 4;  // fp8
    typedef typename Chosen<kSmall, F16, A>::type AsA;
    typedef typename Chosen<kSmall, F16, B>::type AsB;

    static __attribute__((no_sanitize("thread"))) void compute(void* const* lanes) {
        Line<A, K> a[M];
        Line<B, K> b[N];
        for (int lane = 0; lane < 32; lane++) {
            const Operands& mine = *static_cast<const Operands*>(lanes[lane]);
            for (int i = 0; i < InA; i++) {
                const Place p = How == kWmma ? dealt(lane, i, InA, M, K) : fragment_of_a<M, per_register<A>>(lane, i);
                a[p.row].template set<AsA>(place(p.column), A::value(element<A::kBits>(mine.a, i)));
            }
            for (int i = 0; i < InB; i++) {
                const Place p = How == kWmma ? flipped(dealt(lane, i, InB, N, K)) : fragment_of_b<per_register<B>>(lane, i);
                b[p.column].template set<AsB>(place(p.row), B::value(element<B::kBits>(mine.b, i)));
            }
        }
        for (Line<A, K>& line : a) line.seal();
        for (Line<B, K>& line : b) line.seal();
        for (int lane = 0; lane < 32; lane++) {
            Operands& mine = *static_cast<Operands*>(lanes[lane]);
            for (int i = 0; i < M * N / 32; i++) {
                const Place p = How == kWmma ? dealt(lane, i, M * N / 32, M, N) : fragment_of_c(lane, i);
                const auto start = C::value(element<C::kBits>(mine.c, i));
                set_element<D::kBits>(mine.d, i, D::bits(sum(a[p.row], b[p.column], start)));
            }
        }
    }

    KW_MATRIX constexpr int place(int k) { return kSmall ? place_of_small(k, K) : k; }
    KW_MATRIX auto sum(const Line<A, K>& a, const Line<B, K>& b, typename C::Value start) {
        if constexpr (kSmall) {
            return fold_small<D>(a, b, start);
        } else {
            return fold<D>(a, b, start, Mode);
        }
    }
};

// Operands of a lane in ldmatrix and stmatrix. Lane 8 j + r passes the address of row r of matrix j.
struct Rows {
    char* row;
    uint32_t d[4];
    void* code;
};

// Returns the index of one 16-bit half of a lane's register in an 8 x 8 matrix of 16-bit elements.
KW_MATRIX int half_of(int lane, int half, bool flip) {
    const int row = lane / 4, column = lane % 4 * 2 + half;
    return flip ? column * 8 + row : row * 8 + column;
}

template <int Count, bool Flip, bool Stores>
struct RowsMoved {
    static __attribute__((no_sanitize("thread"))) void compute(void* const* lanes) {
        for (int number = 0; number < Count; number++) {
            uint16_t matrix[64];
            if (!Stores) {
                for (int r = 0; r < 8; r++) {
                    const Rows& from = *static_cast<const Rows*>(lanes[8 * number + r]);
                    if (from.row == nullptr) continue;
                    kw_lane_access(8 * number + r, from.row, 16, 0, from.code);
                    __builtin_memcpy(matrix + 8 * r, from.row, 16);
                }
            }
            for (int lane = 0; lane < 32; lane++) {
                uint32_t& word = static_cast<Rows*>(lanes[lane])->d[number];
                uint16_t &first = matrix[half_of(lane, 0, Flip)], &second = matrix[half_of(lane, 1, Flip)];
                if (Stores) {
                    first = low(word);
                    second = high(word);
                } else {
                    word = pair(first, second);
                }
            }
            for (int r = 0; Stores && r < 8; r++) {
                const Rows& to = *static_cast<const Rows*>(lanes[8 * number + r]);
                if (to.row == nullptr) continue;
                kw_lane_access(8 * number + r, to.row, 16, 1, to.code);
                __builtin_memcpy(to.row, matrix + 8 * r, 16);
            }
        }
    }
};

static __attribute__((unused, no_sanitize("thread"))) void flip_within(void* const* lanes) {
    uint16_t matrix[64];
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t word = static_cast<Rows*>(lanes[lane])->d[0];
        matrix[half_of(lane, 0, false)] = low(word);
        matrix[half_of(lane, 1, false)] = high(word);
    }
    for (int lane = 0; lane < 32; lane++) {
        static_cast<Rows*>(lanes[lane])->d[0] = pair(matrix[half_of(lane, 0, true)], matrix[half_of(lane, 1, true)]);
    }
}

// Operands of a lane in wmma.load and wmma.store: the matrix's address and the stride between its rows (or columns).
struct Tile {
    char* first;
    int64_t stride;  // number of elements between rows (or columns)
    void* code;
    uint64_t registers[8];
};

// wmma.load and wmma.store. ColumnMajor is the layout in memory. Which is the matrix; 'b' is distributed by columns.
template <int Rows_, int Columns, int In, int Bits, bool ColumnMajor, char Which, bool Stores>
struct TileMoved {
    static __attribute__((no_sanitize("thread"))) void compute(void* const* lanes) {
        for (int lane = 0; lane < 32; lane++) {
            Tile& tile = *static_cast<Tile*>(lanes[lane]);
            if (tile.first == nullptr) continue;
            for (int i = 0; i < In; i++) {
                const Place p = Which == 'b' ? flipped(dealt(lane, i, In, Columns, Rows_)) : dealt(lane, i, In, Rows_, Columns);
                const int64_t index = ColumnMajor ? p.column * tile.stride + p.row : p.row * tile.stride + p.column;
                char* at = tile.first + index * Bits / 8;
                constexpr int bytes = Bits < 8 ? 1 : Bits / 8;
                kw_lane_access(lane, at, bytes, Stores, tile.code);
                if (Stores) {
                    const uint64_t bits = element<Bits>(tile.registers, i);
                    __builtin_memcpy(at, &bits, bytes);
                } else {
                    uint64_t bits = 0;
                    __builtin_memcpy(&bits, at, bytes);
                    if (Bits < 8) bits = bits >> (index * Bits % 8) & ((1 << Bits % 8) - 1);
                    set_element<Bits>(tile.registers, i, bits);
                }
            }
        }
    }
};

// Functions that are not inlined, because accesses are attributed to their return address in the candidate's code.
#define KW_MATRIX_CALL static __attribute__((noinline, unused, no_sanitize("thread")))

template <class What>
KW_MATRIX_CALL void multiply(Operands& mine, int line) {
    static_assert(sizeof mine <= KW_COLLECTED_BYTES, "as much as a lane may bring");
    kw_warp_collect(What::compute, &mine, line);
}
template <class What>
KW_MATRIX_CALL void move_rows(Rows& mine, int line) {
    mine.code = __builtin_return_address(0);
    kw_warp_collect(What::compute, &mine, line);
}
template <class What>
KW_MATRIX_CALL void move_tile(Tile& mine, int line) {
    mine.code = __builtin_return_address(0);
    kw_warp_collect(What::compute, &mine, line);
}
KW_MATRIX_CALL uint32_t flip(uint32_t word, int line) {
    Rows mine = {nullptr, {word}, nullptr};
    kw_warp_collect(flip_within, &mine, line);
    return mine.d[0];
}

}  // namespace matrix
