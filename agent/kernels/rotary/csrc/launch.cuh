// Rotary position embedding of rows of `size` elements, whose first 2 * half are turned pair by pair.
//
// Su and others, arXiv 2104.09864. A pair is (i, i + half), or (2i, 2i + 1) where pairs are interleaved. The gradient is
// the turn by the negative angle. A thread reads all that it writes before it writes, so that y may be x.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../csrc/element.cuh"

namespace kernelwright::rotary {

struct Forward {
    const void* x;
    const void* table;  // param_dtype [positions, half] of cosines; float32 [half] of frequencies where there is no `sin`
    const void* sin;    // param_dtype [positions, half], or null
    void* y;
    int64_t rows, inner, positions;  // a row's position is (row / inner) % positions
    int64_t size, half;
    int64_t start;        // of the positions, where angles are computed
    int64_t interleaved;  // 1: pairs are (2i, 2i + 1)
    int64_t backwards;    // 1: by the negative angle
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 64;  // few: a thread has all its loads under way at once, and more blocks share a small tensor

struct Turn {
    Forward args;
    AnyDivisor items;  // of a row, of which a thread takes one
    AnyDivisor inner, positions;
};

template <bool kTables, typename P, int V>
__device__ __forceinline__ void angles(
    const Forward& args, int64_t position, int64_t column, float (&cosines)[V], float (&sines)[V]) {
    if constexpr (kTables) {
        const int64_t at = position * (args.half / V) + column;
        const Pack<P, V> c = static_cast<const Pack<P, V>*>(args.table)[at];
        const Pack<P, V> s = static_cast<const Pack<P, V>*>(args.sin)[at];
        for (int k = 0; k < V; ++k) {
            cosines[k] = to_float(c.v[k]);
            sines[k] = to_float(s.v[k]);
        }
    } else {
        const Pack<float, V> frequency = static_cast<const Pack<float, V>*>(args.table)[column];
        for (int k = 0; k < V; ++k) {
            const float angle = float(args.start + position) * frequency.v[k];
            cosines[k] = cosf(angle);
            sines[k] = sinf(angle);
        }
    }
    for (int k = 0; k < V; ++k) sines[k] = args.backwards ? -sines[k] : sines[k];
}

// A thread takes V pairs, or 2 V elements of those that stay as they are.
template <bool kApart, bool kTables, typename T, typename P, int V>
__global__ void __launch_bounds__(kThreads) turned(const __grid_constant__ Turn turn) {
    const Forward& args = turn.args;
    const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    const int64_t row = turn.items.of(at), item = at - row * turn.items.by;
    if (row >= args.rows) return;
    const int64_t packs = args.size / V, rotated = args.half / V;
    const bool stays = item >= rotated, apart = kApart && !stays;
    const int64_t one = row * packs + (apart ? item : 2 * item), other = apart ? one + rotated : one + 1;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    Pack<T, V> pair[2] = {x[one], x[other]};
    if (!stays) {
        float cosines[V], sines[V];
        const int64_t place = turn.inner.of(row);
        const int64_t position = place - turn.positions.of(place) * turn.positions.by;
        angles<kTables, P, V>(args, position, item, cosines, sines);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            T& left = kApart ? pair[0].v[k] : pair[2 * k / V].v[2 * k % V];
            T& right = kApart ? pair[1].v[k] : pair[(2 * k + 1) / V].v[(2 * k + 1) % V];
            const float a = to_float(left), b = to_float(right);
            left = from_float<T>(a * cosines[k] - b * sines[k]);
            right = from_float<T>(b * cosines[k] + a * sines[k]);
        }
    }
    y[one] = pair[0];
    y[other] = pair[1];
}

template <bool kApart, bool kTables, typename T, typename P, int V>
cudaError_t launch(const Forward& args) {
    const int64_t items = args.size / (2 * V), blocks = (args.rows * items + kThreads - 1) / kThreads;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const Turn turn = {args, AnyDivisor(items), AnyDivisor(args.inner), AnyDivisor(args.positions)};
    turned<kApart, kTables, T, P, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(turn);
    return cudaGetLastError();
}

template <bool kTables, typename T, typename P, int V>
cudaError_t launch_as(const Forward& args) {
    return args.interleaved ? launch<false, kTables, T, P, V>(args) : launch<true, kTables, T, P, V>(args);
}

// `vectors`: whether all that P does not decide can be read in vectors of T.
template <bool kTables, typename T, typename P>
cudaError_t launch_in(const Forward& args, bool vectors) {
    constexpr int V = kVector<T>;
    constexpr uintptr_t step = sizeof(Pack<P, V>);
    const bool tables = reinterpret_cast<uintptr_t>(args.table) % step == 0 &&
                        reinterpret_cast<uintptr_t>(args.sin) % step == 0;
    return vectors && tables ? launch_as<kTables, T, P, V>(args) : launch_as<kTables, T, P, 1>(args);
}

inline cudaError_t forward(const Forward& args) {
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        constexpr int V = kVector<T>;
        const bool whole = args.half % V == 0 && args.size % (2 * V) == 0;
        const bool vectors = whole && aligned(args.x) && aligned(args.y);
        if (args.sin == nullptr) return launch_in<false, T, float>(args, vectors);
        return launch_in<true, T, decltype(parameter)>(args, vectors);
    });
}

}  // namespace kernelwright::rotary
