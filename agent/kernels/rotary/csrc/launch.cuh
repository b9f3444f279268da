// Rotary position embedding of rows of `size` elements, the first 2 * half of which are rotated in pairs.
//
// Su and others, arXiv 2104.09864. A pair is (i, i + half), or (2i, 2i + 1) if interleaved. The gradient is the
// rotation by the negative angle. A thread reads all its inputs before it writes, so that y may alias x.
#pragma once

#include "../../csrc/async_copy.cuh"
#include "../../csrc/divisor.cuh"
#include "../../csrc/element.cuh"
#include "../../csrc/launched.cuh"

namespace kernelwright::rotary {

struct Forward {
    const void* x;
    const void* table;  // param_dtype [positions, half] of cosines; float32 [half] of frequencies if `sin` is null
    const void* sin;    // param_dtype [positions, half], or null
    void* y;
    int64_t rows, inner, positions;  // a row's position is (row / inner) % positions
    int64_t size, half;   // half is at least 1
    int64_t start;        // first position, if angles are computed
    int64_t interleaved;  // 1: pairs are (2i, 2i + 1)
    int64_t backwards;    // 1: rotates by the negative angle
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
    int64_t second;  // if x is strided, the size of the last dimension before the positions; 0: x is contiguous
    int64_t by_first, by_second, by_position, by_inner;  // strides of x in elements, if x is strided
};

constexpr int kThreads = 128;
constexpr int64_t kFewPacks = 1 << 15;  // packs of 16-bit elements, up to which threads with half of each are faster

// Packs per thread: two if the elements of a pair are apart (kApart) or a pack is one element; one if they are adjacent.
template <bool kApart, int V>
constexpr int kPacks = kApart || V == 1 ? 2 : 1;

template <typename Index>
struct Rows {
    Index total;           // items, one per thread
    Index packs, rotated;  // packs of a row; items of a row that are rotated
    Divisor<Index> items;  // divides by the items per row
    Divisor<Index> inner, positions, second;
    Index by_first, by_second, by_position, by_inner;  // strides of x in packs
    bool dense;

    // Locations for item `at`: its first pack in x and in y, the distance to its second pack, and its angles in the table.
    struct Item {
        Index from, to, between, position, place;
        bool stays;
    };
    template <bool kApart, bool kTables, int kHeld>
    __device__ __forceinline__ Item item(Index at) const {
        const Index row = items.of(at), item = at - row * items.by;
        const bool stays = item >= rotated, apart = kApart && !stays;
        const Index one = apart ? item : kHeld * item, position = position_of(row);
        // Items that are not rotated load the first angle: a branch before that load would wait for x.
        return {start_of(row) + one, row * packs + one, apart ? rotated : Index(1), position,
                stays ? 0 : kTables ? position * rotated + item : item, stays};
    }

    // Returns the offset of a row of x, in packs.
    __device__ __forceinline__ Index start_of(Index row) const {
        if (dense) return row * packs;
        const Index place = inner.of(row), outer = positions.of(place), first = second.of(outer);
        return first * by_first + (outer - first * second.by) * by_second +
               (place - outer * positions.by) * by_position + (row - place * inner.by) * by_inner;
    }

    __device__ __forceinline__ Index position_of(Index row) const {
        const Index place = inner.of(row);
        return place - positions.of(place) * positions.by;
    }
};

// N angles of a table, which may be wider than the pack of x.
template <typename P, int N>
struct alignas(std::min(int(sizeof(P)) * N, kVectorBytes)) Angles {
    P v[N];
};

// Rotates an item's pairs. point(k) returns the cosine and sine of pair k.
template <bool kApart, int N, typename T, int V, int kHeld, typename Point>
__device__ __forceinline__ void turn(Pack<T, V> (&held)[kHeld], Point point) {
    #pragma unroll
    for (int k = 0; k < N; ++k) {
        const float2 by = point(k);
        T& left = kApart ? held[0].v[k] : held[2 * k / V].v[2 * k % V];
        T& right = kApart ? held[kHeld - 1].v[k] : held[(2 * k + 1) / V].v[(2 * k + 1) % V];
        const float a = to_float(left), b = to_float(right);
        left = from_float<T>(a * by.x - b * by.y);
        right = from_float<T>(b * by.x + a * by.y);
    }
}

// Returns the cosine and sine of an angle. Not inlined: the argument reduction for large angles would dominate a kernel's
// code, once per pair.
__device__ __noinline__ float2 point_at(float angle) { return {cosf(angle), sinf(angle)}; }

// Rotates all items. All loads are issued before their first use. In backward the first blocks start while the forward
// kernel finishes, and prefetch their inputs. `way` is -1 in backward, else 1. It is one of the first parameters, since it
// is needed before all loads. `first` is the first position, if angles are computed.
template <bool kApart, bool kTables, typename T, typename P, int V, int N, typename Index>
__global__ void __launch_bounds__(kThreads) turned(
    const Pack<T, V>* x, const Angles<P, N>* table, const Angles<P, N>* sin, Pack<T, V>* y, float way,
    Rows<Index> rows, int64_t first) {
    constexpr int kHeld = kPacks<kApart, V>;
    static_assert(2 * N == kHeld * V);
    let_next_begin_at_last();
    const Index at = Index(blockIdx.x) * kThreads + threadIdx.x;
    const auto item = rows.template item<kApart, kTables, kHeld>(at);
    x += item.from;
    y += item.to;
    if (way < 0.0f && blockIdx.x < kBlocksAtOnce && at < rows.total) {
        bring_near(x);
        if constexpr (kHeld == 2) bring_near(x + item.between);
    }
    await_earlier();
    if (at >= rows.total) return;
    Pack<T, V> held[kHeld];
    held[0] = x[0];
    if constexpr (kHeld == 2) held[1] = x[item.between];
    const auto store = [&] {
        y[0] = held[0];
        if constexpr (kHeld == 2) y[item.between] = held[1];
    };
    Angles<P, N> cosines = table[item.place], sines;
    if constexpr (kTables) sines = sin[item.place];
    if (item.stays) return store();
    turn<kApart, N>(held, [&](int k) -> float2 {
        if constexpr (kTables) return {to_float(cosines.v[k]), way * to_float(sines.v[k])};
        const float2 by = point_at(float(first + int64_t(item.position)) * to_float(cosines.v[k]));
        return {by.x, way * by.y};
    });
    store();
}

constexpr int kStagedThreads = 256;
constexpr int kStagedBlocks = 8;  // resident blocks per SM
constexpr int kStagedPacks = 4;   // packs of a thread in shared memory
constexpr int64_t kSms = 132;     // SMs of a large GPU

// Rotates float32 elements forward, with angles from tables. A thread handles several packs, staged in shared memory. All
// reads then precede the writes, which is faster than reads and writes in turn, and registers remain for the angles.
template <bool kApart, typename T, typename P, int V, int N, typename Index>
__global__ void __launch_bounds__(kStagedThreads, kStagedBlocks) turned_staged(
    const Pack<T, V>* x, const Angles<P, N>* table, const Angles<P, N>* sin, Pack<T, V>* y, Rows<Index> rows) {
    constexpr int kHeld = kPacks<kApart, V>, kItems = kStagedPacks / kHeld;
    __shared__ Pack<T, V> staged[kItems][kHeld][kStagedThreads];
    // The next kernel may start beside few of these blocks at once. With more blocks it starts after their reads.
    const bool leaves_room = gridDim.x <= 2 * kSms;
    if (leaves_room) let_next_begin();
    const int thread = int(threadIdx.x);
    Index begin = Index(blockIdx.x) * (kItems * kStagedThreads) + thread;
    // Calls f(i, item) for each of the thread's items. The asm forces the item's location to be recomputed each time: the
    // compiler would keep it in registers that the angles need.
    const auto each = [&](auto f) {
        #pragma unroll
        for (int i = 0; i < kItems; ++i) {
            const Index at = begin + i * kStagedThreads;
            if (at < rows.total) f(i, rows.template item<kApart, true, kHeld>(at));
        }
        asm volatile("" : "+r"(begin)::"memory");
    };
    await_earlier();
    each([&](int i, const auto& item) {
        copy_async(&staged[i][0][thread], x + item.from);
        if constexpr (kHeld == 2) copy_async(&staged[i][1][thread], x + item.from + item.between);
    });
    copies_asked_for();
    Angles<P, N> cosines[kItems], sines[kItems];
    each([&](int i, const auto& item) {
        cosines[i] = table[item.place];
        sines[i] = sin[item.place];
    });
    copies_wait(0);
    if (!leaves_room) let_next_begin();
    each([&](int i, const auto& item) {
        Pack<T, V> held[kHeld];
        #pragma unroll
        for (int h = 0; h < kHeld; ++h) held[h] = staged[i][h][thread];
        if (!item.stays) {
            turn<kApart, N>(held, [&](int k) -> float2 { return {to_float(cosines[i].v[k]), to_float(sines[i].v[k])}; });
        }
        y[item.to] = held[0];
        if constexpr (kHeld == 2) y[item.to + item.between] = held[1];
    });
}

// Returns true if all blocks of turned_staged are resident at once and fill at least half of the SMs. With more blocks,
// some write while others read; with fewer, SMs are idle.
inline bool is_staged(int64_t blocks) { return 2 * blocks > kSms && blocks <= kStagedBlocks * kSms; }

template <bool kApart, bool kTables, typename T, typename P, int V, typename Index>
cudaError_t launch(const Forward& args) {
    constexpr int kHeld = kPacks<kApart, V>, N = kHeld * V / 2;
    const int64_t packs = args.size / V, items = packs / kHeld, total = args.rows * items;
    const auto blocks_of = [&](int64_t each) { return (total + each - 1) / each; };
    if (blocks_of(kThreads) > kMaxGrid) return cudaErrorInvalidValue;
    const Rows<Index> rows = {
        Index(total), Index(packs), Index(args.half / N),
        Divisor<Index>(items), Divisor<Index>(args.inner), Divisor<Index>(args.positions),
        Divisor<Index>(std::max(args.second, int64_t{1})), Index(args.by_first / V), Index(args.by_second / V),
        Index(args.by_position / V), Index(args.by_inner / V), args.second == 0};
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    const auto* table = static_cast<const Angles<P, N>*>(args.table);
    const auto* sin = static_cast<const Angles<P, N>*>(args.sin);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    if constexpr (kTables && V > 1 && sizeof(T) == sizeof(float)) {
        const int64_t blocks = blocks_of(kStagedPacks / kHeld * kStagedThreads);
        if (!args.backwards && is_staged(blocks)) {
            return launched(
                turned_staged<kApart, T, P, V, N, Index>, unsigned(blocks), kStagedThreads, args.stream, x, table, sin, y, rows);
        }
    }
    return launched(
        turned<kApart, kTables, T, P, V, N, Index>, unsigned(blocks_of(kThreads)), kThreads, args.stream, x, table, sin, y,
        args.backwards ? -1.0f : 1.0f, rows, args.start);
}

// Returns the number of elements that x or y spans, whichever is larger.
inline int64_t reach(const Forward& args) {
    const int64_t elements = args.rows * args.size;
    if (args.second == 0) return elements;
    const int64_t firsts = args.rows / (args.second * args.positions * args.inner);
    const int64_t last = (firsts - 1) * args.by_first + (args.second - 1) * args.by_second +
                         (args.positions - 1) * args.by_position + (args.inner - 1) * args.by_inner;
    return std::max(elements, last + args.size);
}

template <bool kApart, bool kTables, typename T, typename P>
cudaError_t launch_in(const Forward& args) {
    constexpr int V = kVector<T>, kTaken = kPacks<kApart, V> * V;
    const int64_t steps = args.by_first | args.by_second | args.by_position | args.by_inner;
    const bool whole = 2 * args.half % kTaken == 0 && args.size % kTaken == 0 && steps % V == 0;
    const bool starts = aligned(args.x) && aligned(args.table) && aligned(args.sin) && aligned(args.y);
    if (whole && starts && is_narrow(reach(args) / V)) {
        if constexpr (kApart && kTables && sizeof(T) < sizeof(float)) {
            if (args.rows * args.size / V <= kFewPacks) return launch<kApart, kTables, T, P, V / 2, unsigned>(args);
        }
        return launch<kApart, kTables, T, P, V, unsigned>(args);
    }
    if (is_narrow(reach(args))) return launch<kApart, kTables, T, P, 1, unsigned>(args);
    return launch<kApart, kTables, T, P, 1, int64_t>(args);
}

template <bool kTables, typename T, typename P>
cudaError_t launch_as(const Forward& args) {
    return args.interleaved ? launch_in<false, kTables, T, P>(args) : launch_in<true, kTables, T, P>(args);
}

inline cudaError_t forward(const Forward& args) {
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        if (args.sin == nullptr) return launch_as<false, T, float>(args);
        return launch_as<true, T, decltype(parameter)>(args);
    });
}

}  // namespace kernelwright::rotary
