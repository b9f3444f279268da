// Forward of an embedding with optional positions and its LayerNorm or RMSNorm.
//
// A block handles a row of the result, like the norm of a sum: it reads the table's row once, stores the (summed) embedding,
// and normalises from registers.
#pragma once

#include "../../csrc/norm_held.cuh"
#include "table_unsorted.cuh"

namespace kernelwright::embedding_norm {

// Arguments of embedded = table[id] + positions[row % count], y = (embedded - mean) * rstd * weight + bias; RMSNorm has no
// mean.
struct Forward {
    const int64_t* ids;  // [rows]; an id outside the table makes its row NaN
    const void* table;   // [entries, length]
    const void* positions;  // [count, length], or null
    const void* weight;     // param_dtype [length], or null
    const void* bias;
    void* y;
    void* embedded;
    float* mean;  // [rows], or null if unwanted; so is rstd
    float* rstd;
    int64_t rows, length, entries, count;
    int64_t centred;  // nonzero for LayerNorm, 0 for RMSNorm
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kMaxLength = 8192;  // elements that fit a block's registers

// Source of the result's rows: an entry of the table, plus a position if there are positions. NaN for an id outside the table.
template <typename T, int V>
struct RowsOfTable {
    struct Parts {
        int64_t id;
        const Pack<T, V>* position;
        int packs;
    };
    static constexpr bool kSum = true, kLooksUp = true;
    const int64_t* ids;
    const Pack<T, V>* table;
    const Pack<T, V>* positions;
    int64_t entries;
    unsigned count;

    __device__ __forceinline__ Parts of(unsigned row, int packs) const {
        // 32 bits suffice for fewer than 2^31 rows; a 64-bit remainder costs a branch and a hundred instructions more.
        const int64_t place = positions == nullptr ? 0 : row % count;
        return {ids[row], positions + place * packs, packs};
    }
    __device__ __forceinline__ bool knows(Parts from) const { return from.id >= 0 && from.id < entries; }
    __device__ __forceinline__ Pack<T, V> first(Parts from, int at) const {
        return table[(knows(from) ? from.id : 0) * from.packs + at];
    }
    __device__ __forceinline__ Pack<T, V> second(Parts from, int at) const {
        return positions == nullptr ? filled<T, V>(0.0f) : from.position[at];
    }
    __device__ __forceinline__ Pack<T, V> made(Parts from, Pack<T, V> entry, Pack<T, V> position) const {
        if (!knows(from)) return filled<T, V>(NAN);
        return positions == nullptr ? entry : total(entry, position);
    }
};

template <bool kCentred, typename T, int V>
cudaError_t launch(const Forward& args) {
    const RowsOfTable<T, V> rows = {
        args.ids, static_cast<const Pack<T, V>*>(args.table), static_cast<const Pack<T, V>*>(args.positions),
        args.entries, unsigned(args.count)};
    const auto held = [&](auto hold) {
        return launch_held<decltype(hold), kCentred>(rows, static_cast<Pack<T, V>*>(args.embedded), args);
    };
    if constexpr (V == 1) {
        return held(Held<0, 8, 1024, 1>{});
    } else {
        const int64_t packs = args.length / V;
        if constexpr (sizeof(T) < sizeof(float)) {
            if (args.param_dtype == kFloat32) return held(Held<0, 4, 512, 2, false, true>{});
        }
        if (packs <= 32) return held(Held<32, 1, 256, 8, true>{});
        if (packs <= 256) return held(Held<0, 1, 256, 8, true>{});
        return held(Held<0, 4, 512, 2>{});
    }
}

template <bool kCentred>
cudaError_t launch_as(const Forward& args) {
    return with_elements(args.dtype, args.param_dtype, [&](auto element) {
        using T = decltype(element);
        if (in_vectors<T>(
                args.length, args.table, args.positions, args.y, args.embedded, args.weight, args.bias)) {
            return launch<kCentred, T, kVector<T>>(args);
        }
        return launch<kCentred, T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) {
    if (args.rows > kMaxGrid || args.length > kMaxLength) return cudaErrorInvalidValue;
    return args.centred ? launch_as<true>(args) : launch_as<false>(args);
}

}  // namespace kernelwright::embedding_norm
