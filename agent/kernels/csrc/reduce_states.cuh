// What a reduction keeps of the values that it has seen, how two such states merge, and what is left of them in the end. A state
// that has taken values is settled before it is merged.
#pragma once

#include <cmath>

#include "element.cuh"

namespace kernelwright {

struct SumOf {
    using State = float;
    __device__ __forceinline__ static State identity() { return 0.0f; }
    __device__ __forceinline__ static void take(State& all, float value, int) { all += value; }
    __device__ __forceinline__ static State settled(State all) { return all; }
    __device__ __forceinline__ static State merge(State a, State b) { return a + b; }
    __device__ __forceinline__ static float result(State all) { return all; }
    __device__ __forceinline__ static float beside(State all, bool) { return all; }
};

struct SquaresOf : SumOf {
    __device__ __forceinline__ static void take(State& all, float value, int) { all = fmaf(value, value, all); }
    __device__ __forceinline__ static float result(State all) { return sqrtf(all); }
    __device__ __forceinline__ static float beside(State all, bool) { return sqrtf(all); }
};

// NaN is larger than all. Nothing here branches: which of two values is larger differs from thread to thread.
#ifndef KW_PORTABLE_ONLY
__device__ __forceinline__ float larger_of(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}
#else
__device__ __forceinline__ float larger_of(float a, float b) { return (a > b) | isnan(a) ? a : b; }
#endif

struct LargestOf {
    using State = float;
    __device__ __forceinline__ static State identity() { return -INFINITY; }
    __device__ __forceinline__ static void take(State& all, float value, int) { all = larger_of(all, value); }
    __device__ __forceinline__ static State settled(State all) { return all; }
    __device__ __forceinline__ static State merge(State a, State b) { return larger_of(a, b); }
    __device__ __forceinline__ static float result(State all) { return all; }
    __device__ __forceinline__ static float beside(State, bool) { return 0.0f; }
};

// The largest value, and where it stands if it does so once; NaN stands nowhere, as it equals nothing.
struct LargestAndPlaceOf {
    struct State {
        float value;
        int code;  // the place in the length, or -1 - how often; of a NaN anything
    };
    __device__ __forceinline__ static State identity() { return {-INFINITY, -1}; }
    __device__ __forceinline__ static int both(int a, int b) {
        if (a == -1 || b == -1) return a == -1 ? b : a;
        return -1 - ((a < 0 ? -1 - a : 1) + (b < 0 ? -1 - b : 1));
    }
    // Few instructions count here: -inf, which the identity equals, is counted once too often, and `settled` makes it good.
    __device__ __forceinline__ static void take(State& all, float value, int place) {
        const int more = min(all.code, -2) - 1;
        all.code = value > all.value ? place : value == all.value ? more : all.code;
        all.value = larger_of(all.value, value);
    }
    __device__ __forceinline__ static State settled(State all) {
        return {all.value, all.value == -INFINITY && all.code < -1 ? all.code + 1 : all.code};
    }
    __device__ __forceinline__ static State merge(State a, State b) {
        const float value = larger_of(a.value, b.value);
        return {value, a.value == b.value ? both(a.code, b.code) : a.value == value ? a.code : b.code};
    }
    __device__ __forceinline__ static float result(State all) { return all.value; }
    // Where a place names no element a count stands for it.
    __device__ __forceinline__ static int beside(State all, bool is_placed) {
        return isnan(all.value) ? -1 : all.code >= 0 && !is_placed ? -2 : all.code;
    }
};

// The first place of the largest value, or of the first NaN.
struct PlaceOf {
    struct State {
        float value;
        int place;  // in the length
    };
    // Of -inf alone the first place is 0, which the identity has: it is never taken.
    __device__ __forceinline__ static State identity() { return {-INFINITY, 0}; }
    // Of places that follow each other.
    __device__ __forceinline__ static void take(State& all, float value, int place) {
        const bool takes = !(value <= all.value) & (all.value == all.value);
        all = {takes ? value : all.value, takes ? place : all.place};
    }
    __device__ __forceinline__ static State settled(State all) { return all; }
    __device__ __forceinline__ static State merge(State a, State b) {
        if (a.value == b.value || (isnan(a.value) && isnan(b.value))) return a.place < b.place ? a : b;
        return a.value > b.value || isnan(a.value) ? a : b;
    }
};

}  // namespace kernelwright
