// Atomic functions, for exactly the types that CUDA defines: atomicMax on a float does not compile here either.
// Part of kw/device.h.
//
// Blocks run on several OS threads, so the functions use the CPU's atomic operations.
#pragma once

namespace kw {

template <size_t Bytes> struct Word;
template <> struct Word<2> { using type = uint16_t; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<8> { using type = uint64_t; };

// Scope object that gives the calling thread's atomic operations block scope until it is destroyed.
struct BlockScope {
    __attribute__((always_inline)) BlockScope() { kw_block_scope(1); }
    __attribute__((always_inline)) ~BlockScope() { kw_block_scope(0); }
};

// Replaces *address by update(old) and returns old. The loop starts from a guess instead of a load, because checks
// would see the load as an access.
template <class T, class Update>
KW_DEVICE T atomic_update(T* address, Update update) {
    using W = typename Word<sizeof(T)>::type;
    W* word = reinterpret_cast<W*>(address);
    W old = 0;
    W wanted;
    do {
        wanted = static_cast<W>(to_bits<T>(update(from_bits<T>(old))));
    } while (!__atomic_compare_exchange_n(word, &old, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (wanted == old) kw_poll(address, old);  // atomicAdd(flag, 0) is how some kernels wait
    return from_bits<T>(old);
}

// Compares and swaps. Locks use compare-and-swap and exchange, so an attempt that changes nothing counts as a poll.
template <class T>
KW_DEVICE T compare_and_swap(T* address, T expected, T desired, int line) {
    using W = typename Word<sizeof(T)>::type;
    W old = static_cast<W>(to_bits(expected));
    const W wanted = static_cast<W>(to_bits(desired));
    const bool swapped = __atomic_compare_exchange_n(reinterpret_cast<W*>(address), &old, wanted, false,
                                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (!swapped) {
        kw_spin(address, old, line);
    } else if (kw_spinning) {
        kw_spin_over();
    }
    return from_bits<T>(old);
}

template <class T>
KW_DEVICE T exchange(T* address, T desired, int line) {
    using W = typename Word<sizeof(T)>::type;
    const W wanted = static_cast<W>(to_bits(desired));
    const W old = __atomic_exchange_n(reinterpret_cast<W*>(address), wanted, __ATOMIC_SEQ_CST);
    if (old == wanted) {
        kw_spin(address, old, line);
    } else if (kw_spinning) {
        kw_spin_over();
    }
    return from_bits<T>(old);
}

}  // namespace kw

// Defines an atomic function, and its variants with the suffixes _block and _system.
#define KW_ATOMIC(name, T, expression)                                                                     \
    KW_DEVICE T name(T* address, T value) {                                                                \
        return kw::atomic_update(address, [=](T old) -> T { return expression; });                         \
    }                                                                                                      \
    KW_DEVICE T name##_block(T* address, T value) {                                                        \
        const kw::BlockScope scope;                                                                        \
        return name(address, value);                                                                       \
    }                                                                                                      \
    KW_DEVICE T name##_system(T* address, T value) { return name(address, value); }

#define KW_ATOMIC_INTEGERS(name, expression) \
    KW_ATOMIC(name, int, expression)         \
    KW_ATOMIC(name, unsigned, expression)    \
    KW_ATOMIC(name, unsigned long long, expression)

// Signed integers are added as unsigned ones, because their overflow wraps on a GPU.
KW_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
KW_ATOMIC(atomicAdd, unsigned, old + value)
KW_ATOMIC(atomicAdd, unsigned long long, old + value)
KW_ATOMIC(atomicAdd, float, old + value)
KW_ATOMIC(atomicAdd, double, old + value)
KW_ATOMIC(atomicAdd, __half, __hadd(old, value))
KW_ATOMIC(atomicAdd, __half2, __hadd2(old, value))
KW_ATOMIC(atomicAdd, __nv_bfloat16, __hadd(old, value))
KW_ATOMIC(atomicAdd, __nv_bfloat162, __hadd2(old, value))
KW_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
KW_ATOMIC(atomicSub, unsigned, old - value)
KW_ATOMIC_INTEGERS(atomicMin, value < old ? value : old)
KW_ATOMIC(atomicMin, long long, value < old ? value : old)
KW_ATOMIC_INTEGERS(atomicMax, value > old ? value : old)
KW_ATOMIC(atomicMax, long long, value > old ? value : old)
KW_ATOMIC_INTEGERS(atomicAnd, old & value)
KW_ATOMIC_INTEGERS(atomicOr, old | value)
KW_ATOMIC_INTEGERS(atomicXor, old ^ value)
KW_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1u)
KW_ATOMIC(atomicDec, unsigned, old == 0u || old > value ? value : old - 1u)
#undef KW_ATOMIC_INTEGERS
#undef KW_ATOMIC

#define KW_ATOMIC_SWAP(T)                                                                                  \
    KW_DEVICE T atomicCAS(T* address, T expected, T desired, int line = __builtin_LINE()) {                \
        return kw::compare_and_swap(address, expected, desired, line);                                     \
    }                                                                                                      \
    KW_DEVICE T atomicCAS_block(T* address, T expected, T desired, int line = __builtin_LINE()) {          \
        const kw::BlockScope scope;                                                                        \
        return kw::compare_and_swap(address, expected, desired, line);                                     \
    }                                                                                                      \
    KW_DEVICE T atomicCAS_system(T* address, T expected, T desired, int line = __builtin_LINE()) {         \
        return kw::compare_and_swap(address, expected, desired, line);                                     \
    }
KW_ATOMIC_SWAP(int)
KW_ATOMIC_SWAP(unsigned)
KW_ATOMIC_SWAP(unsigned long long)
KW_ATOMIC_SWAP(unsigned short)
#undef KW_ATOMIC_SWAP

#define KW_ATOMIC_EXCHANGE(T)                                                                              \
    KW_DEVICE T atomicExch(T* address, T value, int line = __builtin_LINE()) {                             \
        return kw::exchange(address, value, line);                                                         \
    }                                                                                                      \
    KW_DEVICE T atomicExch_block(T* address, T value, int line = __builtin_LINE()) {                       \
        const kw::BlockScope scope;                                                                        \
        return kw::exchange(address, value, line);                                                         \
    }                                                                                                      \
    KW_DEVICE T atomicExch_system(T* address, T value, int line = __builtin_LINE()) {                      \
        return kw::exchange(address, value, line);                                                         \
    }
KW_ATOMIC_EXCHANGE(int)
KW_ATOMIC_EXCHANGE(unsigned)
KW_ATOMIC_EXCHANGE(unsigned long long)
KW_ATOMIC_EXCHANGE(float)
#undef KW_ATOMIC_EXCHANGE

// atomicAdd of float vectors, from compute capability 9.0 on. Each element is updated atomically by itself.
KW_DEVICE float2 atomicAdd(float2* a, float2 v) { return {atomicAdd(&a->x, v.x), atomicAdd(&a->y, v.y)}; }
KW_DEVICE float4 atomicAdd(float4* a, float4 v) {
    return {atomicAdd(&a->x, v.x), atomicAdd(&a->y, v.y), atomicAdd(&a->z, v.z), atomicAdd(&a->w, v.w)};
}
