// Warp shuffles, votes, matches and reductions. Part of kw/device.h.
//
// The default argument __builtin_LINE() gives each function the line of its caller.
#pragma once

#define KW_LINE int kw_line = __builtin_LINE()

template <class T>
KW_DEVICE T kw_shuffle(int kind, unsigned mask, T value, int argument, int width, int line) {
    return kw::from_bits<T>(kw_warp_op(kind, mask, kw::to_bits(value), argument, width, line));
}

// Defines the shuffles for one of the types that CUDA supports; nvcc refuses other types too.
#define KW_SHUFFLES(T)                                                                                     \
    KW_DEVICE T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KW_LINE) {                   \
        return kw_shuffle<T>(KW_SHUFFLE_INDEX, mask, value, lane, width, kw_line);                         \
    }                                                                                                      \
    KW_DEVICE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KW_LINE) {          \
        return kw_shuffle<T>(KW_SHUFFLE_UP, mask, value, static_cast<int>(delta), width, kw_line);         \
    }                                                                                                      \
    KW_DEVICE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KW_LINE) {        \
        return kw_shuffle<T>(KW_SHUFFLE_DOWN, mask, value, static_cast<int>(delta), width, kw_line);       \
    }                                                                                                      \
    KW_DEVICE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KW_LINE) {          \
        return kw_shuffle<T>(KW_SHUFFLE_XOR, mask, value, lane_mask, width, kw_line);                      \
    }
KW_SHUFFLES(int)
KW_SHUFFLES(unsigned)
KW_SHUFFLES(long)
KW_SHUFFLES(unsigned long)
KW_SHUFFLES(long long)
KW_SHUFFLES(unsigned long long)
KW_SHUFFLES(float)
KW_SHUFFLES(double)
KW_SHUFFLES(__half)
KW_SHUFFLES(__half2)
KW_SHUFFLES(__nv_bfloat16)
KW_SHUFFLES(__nv_bfloat162)
#undef KW_SHUFFLES

KW_DEVICE void __syncwarp(unsigned mask = 0xffffffffu, KW_LINE) { kw_warp_op(KW_SYNC, mask, 0, 0, 32, kw_line); }

KW_DEVICE unsigned __ballot_sync(unsigned mask, int predicate, KW_LINE) {
    return static_cast<unsigned>(kw_warp_op(KW_BALLOT, mask, predicate != 0, 0, 32, kw_line));
}

KW_DEVICE int __any_sync(unsigned mask, int predicate, KW_LINE) {
    return static_cast<int>(kw_warp_op(KW_ANY, mask, predicate != 0, 0, 32, kw_line));
}

KW_DEVICE int __all_sync(unsigned mask, int predicate, KW_LINE) {
    return static_cast<int>(kw_warp_op(KW_ALL, mask, predicate != 0, 0, 32, kw_line));
}

KW_DEVICE unsigned __activemask(KW_LINE) {
    return static_cast<unsigned>(kw_warp_op(KW_ACTIVE_MASK, 0, 0, 0, 32, kw_line));
}

template <class T>
KW_DEVICE unsigned __match_any_sync(unsigned mask, T value, KW_LINE) {
    return static_cast<unsigned>(kw_warp_op(KW_MATCH_ANY, mask, kw::to_bits(value), 0, 32, kw_line));
}

template <class T>
KW_DEVICE unsigned __match_all_sync(unsigned mask, T value, int* predicate, KW_LINE) {
    const uint64_t lanes = kw_warp_op(KW_MATCH_ALL, mask, kw::to_bits(value), 0, 32, kw_line);
    *predicate = lanes != 0;
    return static_cast<unsigned>(lanes);
}

#define KW_REDUCTION(name, T, kind)                                                                        \
    KW_DEVICE T name(unsigned mask, T value, KW_LINE) {                                                    \
        return static_cast<T>(kw_warp_op(kind, mask, static_cast<uint32_t>(value), 0, 32, kw_line));       \
    }
KW_REDUCTION(__reduce_add_sync, int, KW_REDUCE_ADD)
KW_REDUCTION(__reduce_add_sync, unsigned, KW_REDUCE_ADD)
KW_REDUCTION(__reduce_min_sync, int, KW_REDUCE_MIN)
KW_REDUCTION(__reduce_min_sync, unsigned, KW_REDUCE_MIN_UNSIGNED)
KW_REDUCTION(__reduce_max_sync, int, KW_REDUCE_MAX)
KW_REDUCTION(__reduce_max_sync, unsigned, KW_REDUCE_MAX_UNSIGNED)
KW_REDUCTION(__reduce_and_sync, unsigned, KW_REDUCE_AND)
KW_REDUCTION(__reduce_or_sync, unsigned, KW_REDUCE_OR)
KW_REDUCTION(__reduce_xor_sync, unsigned, KW_REDUCE_XOR)
#undef KW_REDUCTION
