// Columns of [outer, length, inner] that a thread handles whole: V neighbouring ones, one pack of each line.
#pragma once

#include <type_traits>

#include "block.cuh"
#include "divisor.cuh"
#include "launched.cuh"
#include "stored.cuh"
#include "streamed.cuh"

namespace kernelwright {

// Number of neighbouring columns per thread: 4 bytes of each line (index of the length), as smaller loads are
// inefficient.
template <typename T>
constexpr int kBeside = int(sizeof(float) / sizeof(T));

// Kernel argument with the sizes of the tensor: the number of columns in total and side by side, both in packs.
struct WholeColumns {
    Divisor<unsigned> inner;
    unsigned count;
    int length;

    WholeColumns(int64_t outer, int64_t length, int64_t inner)
        : inner(inner), count(unsigned(outer * inner)), length(int(length)) {}

    unsigned blocks(unsigned threads) const { return (count + threads - 1) / threads; }
};

// Returns true if a thread's place and the bytes between lines fit 32 bits.
inline bool are_narrow_columns(int64_t outer, int64_t inner) {
    return is_narrow(outer * inner + kWarp * kMaxWarps) && is_narrow(inner * int64_t{sizeof(float)});
}

// Position of the columns that a thread handles.
template <typename T, int V>
struct WholeColumn {
    unsigned number;
    bool is_there;
    int64_t first;   // offset in packs within the tensor
    unsigned apart;  // bytes between lines, so that an address takes a single multiplication

    __device__ __forceinline__ WholeColumn(const WholeColumns& columns, unsigned block) {
        number = block * blockDim.x + threadIdx.x;
        is_there = number < columns.count;
        const unsigned outer = columns.inner.of(number), inner = columns.inner.by;
        first = int64_t{outer} * (columns.length - 1) * inner + number;
        apart = inner * unsigned(sizeof(T) * V);
    }

    // Returns the address of the pack in line `line` of the columns. Const if x is.
    template <typename Pack, typename Element>
    __device__ __forceinline__ Pack* in_line(Element* x, int line) const {
        using Byte = std::conditional_t<std::is_const_v<Element>, const char, char>;
        auto* top = reinterpret_cast<Byte*>(reinterpret_cast<Pack*>(x) + first);
        return reinterpret_cast<Pack*>(top + uint64_t{apart} * unsigned(line));
    }

    // Loads N lines of x from `line` on, with `outside` beyond the last. All loads are issued before the first use.
    template <int N, typename Reads = Plain>
    __device__ __forceinline__ void load(
        const T* x, int line, int length, T outside, Words<T, V> (&words)[N], const Reads& reads = {}) const {
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            words[i] = Words<T, V>(outside);
            if (line + i < length) words[i] = reads.load(in_line<const Words<T, V>>(x, line + i));
        }
        keep_stored(words);
    }
};

// Calls start(V, columns) with as many columns per thread as one load can cover.
template <typename T, typename Start>
cudaError_t by_beside(int64_t outer, int64_t length, int64_t inner, bool are_aligned, Start start) {
    constexpr int kMany = kBeside<T>;
    if constexpr (kMany > 1) {
        if (!are_aligned || inner % kMany != 0) {
            return start(std::integral_constant<int, 1>{}, WholeColumns(outer, length, inner));
        }
    }
    return start(std::integral_constant<int, kMany>{}, WholeColumns(outer, length, inner / kMany));
}

}  // namespace kernelwright
