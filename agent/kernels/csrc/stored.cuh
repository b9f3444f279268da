// Packs that stay in registers in their storage type: half the registers for 16-bit elements.
#pragma once

#include <cstring>
#include <type_traits>

#include "element.cuh"

namespace kernelwright {

// A pack as 32-bit words. The compiler would otherwise select between two packs one 16-bit element at a time.
template <typename T, int V>
struct alignas(sizeof(T) * V) Words {
    using Word = std::conditional_t<sizeof(T) * V < sizeof(uint32_t), uint16_t, uint32_t>;
    static constexpr int kEach = int(sizeof(Word) / sizeof(T));
    Word words[V / kEach];

    Words() = default;
    __device__ __forceinline__ explicit Words(T value) {
        Pack<T, kEach> filled;
        #pragma unroll
        for (T& one : filled.v) one = value;
        #pragma unroll
        for (Word& word : words) memcpy(&word, &filled, sizeof(word));
    }
    __device__ __forceinline__ T at(int i) const {
        Pack<T, kEach> of_word;
        memcpy(&of_word, &words[i / kEach], sizeof(of_word));
        return of_word.v[i % kEach];
    }
};

#ifndef KW_PORTABLE_ONLY
// Keeps values that are needed again much later in registers. The compiler would recompute them, at more instructions
// than a short row has elements.
template <int N>
__device__ __forceinline__ void keep_found(int (&values)[N]) {
    #pragma unroll
    for (int& value : values) asm volatile("" : "+r"(value));
}

// Keeps packs in their storage type between uses. The compiler would keep the float conversions of 16-bit elements.
template <typename T, int V, int P>
__device__ __forceinline__ void keep_stored(Pack<T, V> (&packs)[P]) {
    if constexpr (sizeof(T) < sizeof(float) && V > 1) {
        #pragma unroll
        for (int word = 0; word < P * V / 2; ++word) asm volatile("" : "+r"(reinterpret_cast<unsigned*>(packs)[word]));
    }
}
template <typename T, int V, int P>
__device__ __forceinline__ void keep_stored(Words<T, V> (&packs)[P]) {
    if constexpr (sizeof(T) < sizeof(float) && V > 1) {
        #pragma unroll
        for (Words<T, V>& pack : packs) {
            #pragma unroll
            for (uint32_t& word : pack.words) asm volatile("" : "+r"(word));
        }
    }
}
#else
template <typename Values>
__device__ __forceinline__ void keep_found(Values&) {}
template <typename Packs>
__device__ __forceinline__ void keep_stored(Packs&) {}
#endif

}  // namespace kernelwright
