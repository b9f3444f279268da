// States of reductions: how a state takes values, how two states merge, and the final result. A state that has taken
// values must be settled before it is merged.
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

// Maximum that propagates NaN. Branch-free: which value is larger differs from thread to thread.
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

// Largest value and its index if it occurs once. NaN has no index, as it equals nothing.
struct LargestAndPlaceOf {
    struct State {
        float value;
        int code;  // index in the length, or -1 - number of occurrences; undefined for NaN
    };
    __device__ __forceinline__ static State identity() { return {-INFINITY, -1}; }
    __device__ __forceinline__ static int both(int a, int b) {
        if (a == -1 || b == -1) return a == -1 ? b : a;
        return -1 - ((a < 0 ? -1 - a : 1) + (b < 0 ? -1 - b : 1));
    }
    // Keeps instructions few: -inf, which equals the identity, is counted once too often, and `settled` corrects that.
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
    // Returns the count instead of an index if the index identifies no element.
    __device__ __forceinline__ static int beside(State all, bool is_placed) {
        return isnan(all.value) ? -1 : all.code >= 0 && !is_placed ? -2 : all.code;
    }
};

// Index of the first occurrence of the largest value, or of the first NaN.
struct PlaceOf {
    struct State {
        float value;
        int place;  // index of the value within the length
    };
    // With -inf alone the result is the identity's index 0, since no value replaces the identity.
    __device__ __forceinline__ static State identity() { return {-INFINITY, 0}; }
    // Takes a value. Values must come in order of their index.
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
