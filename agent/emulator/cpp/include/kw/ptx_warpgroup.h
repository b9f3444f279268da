// Products of a warpgroup (wgmma): four warps, with matrices in shared memory given by descriptors. Part of kw/ptx.h.
//
// The last of the 128 threads to arrive computes for all. It reports the reads of shared memory to the runtime, which
// compares them with later writes until a thread has waited for the product. docs/tensor-cores.md describes where a
// descriptor's elements lie.
#pragma once

#include "kw/ptx_matrix.h"

// Attribute of lambdas whose accesses are not instrumented, because the kernel does not make them.
#define KW_UNSEEN __attribute__((no_sanitize("thread")))

namespace matrix {

// Location of a matrix in shared memory. Its rows are the rows of a or the columns of b; each has 32 bytes along k.
struct Placed {
    uint32_t start, leading, stride, width;  // width: bytes of a swizzle row; 16 without a swizzle

    explicit Placed(uint64_t description)
        : start(static_cast<uint32_t>(description & 0x3fff) << 4),
          leading(static_cast<uint32_t>(description >> 16 & 0x3fff) << 4),
          stride(static_cast<uint32_t>(description >> 32 & 0x3fff) << 4),
          width(width_of(static_cast<int>(description >> 62))),
          offset(static_cast<uint32_t>(description >> 49 & 7)) {}

    uint32_t offset;

    static uint32_t width_of(int swizzle) { return swizzle == 0 ? 16 : 256u >> swizzle; }
    uint32_t exchanged(uint32_t at) const {
        return at ^ ((at - offset * 128 >> 3) & (width - 16));
    }
    // Returns the address of 16-byte unit `piece` along k of a row.
    uint32_t along_depth(uint32_t row, uint32_t piece) const {
        const uint32_t first = start + row / 8 * stride + row % 8 * width;
        return exchanged(first + (width == 16 ? piece * leading : piece * 16));
    }
    // Returns the address of 16-byte unit `piece` along the rows, for one k, in a transposed matrix.
    uint32_t along_rows(uint32_t k, uint32_t piece) const {
        const uint32_t pieces = width / 16;
        if (width == 16) return start + k / 8 * leading + k % 8 * 16 + piece * stride;
        return exchanged(start + k / 8 * stride + k % 8 * width + piece / pieces * leading + piece % pieces * 16);
    }
};

struct GroupOperands {
    uint32_t* d;
    uint32_t a[4];
    uint64_t a_at, b_at;
    char* shared;
    void* code;
    bool add;
};

// Loads a matrix of Rows x Depth elements from shared memory. Returns false if nothing is to be computed.
template <int Rows, int Depth, class T, bool Flipped>
KW_MATRIX bool fetch(Line<T, Depth>* to, uint64_t description, const GroupOperands& by, int each_warp) {
    constexpr int each = 128 / T::kBits;  // elements per 16 bytes
    constexpr int pieces = Rows * Depth / each;
    const Placed placed(description);
    uint32_t units[pieces];
    for (int u = 0; u < pieces; u++) {
        if (Flipped) {
            units[u] = placed.along_rows(u % Depth, u / Depth);
        } else {
            units[u] = placed.along_depth(u / (Depth / each), u % (Depth / each));
        }
    }
    if (!kw_product_reads(units, pieces, each_warp, static_cast<int>(description >> 62), by.code)) return false;
    for (int u = 0; u < pieces; u++) {
        uint32_t words[4];
        __builtin_memcpy(words, by.shared + units[u], 16);
        for (int i = 0; i < each; i++) {
            const uint64_t bits = T::kBits == 32 ? words[i] : words[i * T::kBits / 32] >> i * T::kBits % 32;
            const auto value = T::value(bits & (T::kBits == 32 ? 0xffffffffu : (uint64_t{1} << T::kBits) - 1));
            if (Flipped) {
                to[u / Depth * each + i].set(u % Depth, value);
            } else {
                to[u / (Depth / each)].set(u % (Depth / each) * each + i, value);
            }
        }
    }
    return true;
}

enum Flips { kPlain = 0, kFlipA = 1, kFlipB = 2, kNegateA = 4, kNegateB = 8, kSharedA = 16 };

template <int N, int Depth, class A, class B, class D, int How, Combine Mode>
struct GroupProduct {
    static constexpr int kElements = N / 2;  // elements of d per lane

    static __attribute__((no_sanitize("thread"))) void compute(void* const* lanes) {
        static thread_local Line<A, Depth> a[64];
        static thread_local Line<B, Depth> b[N];
        const GroupOperands& first = *static_cast<const GroupOperands*>(lanes[0]);
        const bool some = fetch<N, Depth, B, (How & kFlipB) != 0>(b, first.b_at, first, 0);
        if (How & kSharedA) {
            if (!fetch<64, Depth, A, (How & kFlipA) != 0>(a, first.a_at, first, 1) || !some) return;
        } else {
            if (!some) return;
            for (int t = 0; t < 128; t++) {
                const GroupOperands& mine = *static_cast<const GroupOperands*>(lanes[t]);
                const uint64_t words[4] = {mine.a[0], mine.a[1], mine.a[2], mine.a[3]};
                for (int i = 0; i < 4 * per_register<A>; i++) {
                    const Place p = fragment_of_a<16, per_register<A>>(t % 32, i);
                    a[t / 32 * 16 + p.row].set(p.column, A::value(element<A::kBits>(words, i)));
                }
            }
        }
        for (Line<A, Depth>& line : a) line.seal();
        for (Line<B, Depth>& line : b) line.seal();
        if (How & kNegateA) negate(a, 64);
        if (How & kNegateB) negate(b, N);
        if constexpr (sizeof(typename D::Value) == 4) {
            sum_rows(a, b, lanes);
        } else {
            each_sum(lanes, [&](int row, int column, auto start) KW_UNSEEN { return fold<D>(a[row], b[column], start, Mode); });
        }
    }

    // Calls sum(row, column, start) for every element of d and stores the returned sum.
    template <class Sum>
    KW_MATRIX void each_sum(void* const* lanes, Sum sum) {
        constexpr int each = 32 / D::kBits;
        for (int t = 0; t < 128; t++) {
            const GroupOperands& mine = *static_cast<const GroupOperands*>(lanes[t]);
            uint64_t word = 0;
            for (int i = 0; i < kElements; i++) {
                const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
                const uint64_t before = mine.d[i / each] >> i % each * 16;
                const uint64_t bits = D::bits(sum(row, column, mine.add ? D::value(before) : typename D::Value{}));
                word = each == 1 ? bits : i % 2 == 0 ? bits : word | bits << 16;
                if (each == 1 || i % 2 == 1) mine.d[i / each] = static_cast<uint32_t>(word);
            }
        }
    }

    // Computes sums in float, four columns of d at a time.
    KW_MATRIX void sum_rows(const Line<A, Depth>* a, const Line<B, Depth>* b, void* const* lanes) {
        static thread_local double across[Depth][N], power[Depth][N];
        static thread_local float starts[64][N], sums[64][N];
        for (int n = 0; n < N; n++) {
            for (int k = 0; k < Depth; k++) across[k][n] = b[n].value[k], power[k][n] = b[n].power[k];
        }
        each_sum(lanes, [&](int row, int column, float start) KW_UNSEEN { return starts[row][column] = start; });
        for (int row = 0; row < 64; row++) {
            for (int n = 0; n < N; n += 4) sum_four(a[row], b, across, power, n, starts[row] + n, sums[row] + n);
        }
        each_sum(lanes, [&](int row, int column, float) KW_UNSEEN { return sums[row][column]; });
    }

    KW_MATRIX void sum_four(const Line<A, Depth>& a, const Line<B, Depth>* b, const double (*across)[N],
                            const double (*power)[N], int n, const float* starts, float* sums) {
        bool special = a.special;
        Four start, start_power;
        for (int i = 0; i < 4; i++) {
            start[i] = starts[i];
            start_power[i] = power_of(starts[i], D::kLeast);
            special = special || b[n + i].special || start_power[i] > 0x1p1000;
        }
        if (__builtin_expect(special, 0)) {
            for (int i = 0; i < 4; i++) sums[i] = fold<D>(a, b[n + i], starts[i], Mode);
            return;
        }
        const Four made = aligned_sums<Depth>(a.value, a.power, &across[0][n], &power[0][n], N, start, start_power, A::kKept);
        D::made_four(made, A::kKept, sums);
    }

    template <class T>
    KW_MATRIX void negate(T* lines, int count) {
        for (int i = 0; i < count; i++) {
            for (auto& value : lines[i].value) value = -value;
        }
    }
};

template <class What>
KW_MATRIX_CALL void multiply_group(GroupOperands& mine, int line) {
    mine.code = __builtin_return_address(0);
    kw_group_collect(What::compute, &mine, line);
}

}  // namespace matrix
