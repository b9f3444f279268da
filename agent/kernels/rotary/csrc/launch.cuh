// Rotary position embedding of rows of `size` elements, whose first 2 * half are turned pair by pair.
//
// Su and others, arXiv 2104.09864. A pair is (i, i + half), or (2i, 2i + 1) where pairs are interleaved. The gradient is
// the turn by the negative angle. A thread reads all that it writes before it writes, so that y may be x.
#pragma once

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

constexpr int kThreads = 128;

// a / b; a division of 64 bits takes four times as long.
__device__ __forceinline__ int64_t quotient(int64_t a, int64_t b) {
    return (a | b) <= 0xffffffff ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
}

template <typename P, int V>
__device__ __forceinline__ void angles(
    const Forward& args, int64_t position, int64_t column, float (&cosines)[V], float (&sines)[V]) {
    if (args.sin == nullptr) {
        const Pack<float, V> frequency = static_cast<const Pack<float, V>*>(args.table)[column];
        for (int k = 0; k < V; ++k) {
            const float angle = float(args.start + position) * frequency.v[k];
            cosines[k] = cosf(angle);
            sines[k] = sinf(angle);
        }
    } else {
        const int64_t at = position * (args.half / V) + column;
        const Pack<P, V> c = static_cast<const Pack<P, V>*>(args.table)[at];
        const Pack<P, V> s = static_cast<const Pack<P, V>*>(args.sin)[at];
        for (int k = 0; k < V; ++k) {
            cosines[k] = to_float(c.v[k]);
            sines[k] = to_float(s.v[k]);
        }
    }
    for (int k = 0; k < V; ++k) sines[k] = args.backwards ? -sines[k] : sines[k];
}

// A thread takes V pairs, or 2 V elements of those that stay as they are.
template <typename T, typename P, int V>
__global__ void __launch_bounds__(kThreads) turned(Forward args) {
    const int64_t items = args.size / (2 * V), packs = args.size / V, rotated = args.half / V;
    const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    const int64_t row = quotient(at, items), item = at - row * items;
    if (row >= args.rows) return;
    const bool stays = item >= rotated;
    const bool apart = !stays && !args.interleaved;
    const int64_t one = row * packs + (apart ? item : 2 * item), other = apart ? one + rotated : one + 1;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    Pack<T, V> pair[2] = {x[one], x[other]};
    if (!stays) {
        float cosines[V], sines[V];
        const int64_t place = quotient(row, args.inner);
        angles<P, V>(args, place - quotient(place, args.positions) * args.positions, item, cosines, sines);
        const auto turn = [&](T& left, T& right, int k) {
            const float a = to_float(left), b = to_float(right);
            left = from_float<T>(a * cosines[k] - b * sines[k]);
            right = from_float<T>(b * cosines[k] + a * sines[k]);
        };
        // Two loops: a choice between addresses would put the pair in memory.
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (apart) turn(pair[0].v[k], pair[1].v[k], k);
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (!apart) turn(pair[2 * k / V].v[2 * k % V], pair[(2 * k + 1) / V].v[(2 * k + 1) % V], k);
        }
    }
    y[one] = pair[0];
    y[other] = pair[1];
}

template <typename T, typename P, int V>
cudaError_t launch(const Forward& args) {
    const int64_t blocks = (args.rows * (args.size / (2 * V)) + kThreads - 1) / kThreads;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    turned<T, P, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args);
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        constexpr int V = kVector<T>;
        constexpr uintptr_t step = sizeof(Pack<P, V>);
        const bool tables = reinterpret_cast<uintptr_t>(args.table) % step == 0 &&
                            reinterpret_cast<uintptr_t>(args.sin) % step == 0;
        const bool whole = args.half % V == 0 && args.size % (2 * V) == 0;
        if (whole && tables && aligned(args.x) && aligned(args.y)) return launch<T, P, V>(args);
        return launch<T, P, 1>(args);
    });
}

}  // namespace kernelwright::rotary
