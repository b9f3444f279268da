// Memory and atomic operations. Part of kw/ptx.h.
//
// Blocks run on several OS threads, so the functions use the CPU's atomic operations.
#pragma once

// A vector access is a single access, which faults if the address is not a multiple of its size (16 bytes).
template <class T, int N> struct Vector { typedef T type __attribute__((vector_size(sizeof(T) * N))); };
template <class T, int N> using vector = typename Vector<T, N>::type;

// Returns the offset of a shared variable. Not instrumented, because the kernel does not make these accesses.
static __attribute__((noinline, unused, no_sanitize("thread"))) uint32_t offset_of(kw_shared_site& site) {
    if (__atomic_load_n(&site.launch, __ATOMIC_ACQUIRE) != kw_launch_serial) kw_place_shared(&site);
    return site.offset;
}

KW_PTX uint64_t to_generic(char* shared, uint64_t offset) {
    if (offset < 512 * 1024) return reinterpret_cast<uint64_t>(shared) + offset;
    return reinterpret_cast<uint64_t>(kw_cluster_shared(static_cast<uint32_t>(offset)));
}
KW_PTX uint64_t from_generic(char* shared, uint64_t address) { return address - reinterpret_cast<uint64_t>(shared); }
KW_PTX bool is_shared(char* shared, uint64_t address) {
    return address - reinterpret_cast<uint64_t>(shared) < 512 * 1024;  // state.h, kSharedArena
}

// Returns the memory at a shared::cluster address. The block's own addresses are offsets; those of other blocks carry a
// rank (mapa).
KW_PTX char* cluster_shared(char* shared, uint32_t address) {
    return address < 512 * 1024 ? shared + address : kw_cluster_shared(address);
}

template <int Bytes> struct Word;
template <> struct Word<1> { typedef uint8_t type; };
template <> struct Word<2> { typedef uint16_t type; };
template <> struct Word<4> { typedef uint32_t type; };
template <> struct Word<8> { typedef uint64_t type; };
template <class T> using WordOf = typename Word<sizeof(T)>::type;

// Functions that announce volatile accesses to the runtime, because old code waits for other threads through them.
// Under -fsanitize=thread the compiler inserts the calls; without it the functions below call them.
extern "C" {
void __tsan_volatile_read1(void*);
void __tsan_volatile_read2(void*);
void __tsan_volatile_read4(void*);
void __tsan_volatile_read8(void*);
void __tsan_volatile_write1(void*);
void __tsan_volatile_write2(void*);
void __tsan_volatile_write4(void*);
void __tsan_volatile_write8(void*);
}
#ifdef __SANITIZE_THREAD__
#define KW_PTX_ANNOUNCE(access, bytes, p)
#else
#define KW_PTX_ANNOUNCE(access, bytes, p)                                  \
    if constexpr (bytes == 1) __tsan_volatile_##access##1(p);              \
    else if constexpr (bytes == 2) __tsan_volatile_##access##2(p);         \
    else if constexpr (bytes == 4) __tsan_volatile_##access##4(p);         \
    else __tsan_volatile_##access##8(p);
#endif
template <class T> KW_PTX T load_volatile(char* p) {
    KW_PTX_ANNOUNCE(read, sizeof(T), p)
    return *reinterpret_cast<const volatile T*>(p);
}
template <class T> KW_PTX void store_volatile(char* p, T value) {
    KW_PTX_ANNOUNCE(write, sizeof(T), p)
    *reinterpret_cast<volatile T*>(p) = value;
}
#undef KW_PTX_ANNOUNCE
template <class T> KW_PTX T load_read_only(const char* p) {
#ifdef __SANITIZE_THREAD__
    kw_read_only(p, sizeof(T));
#endif
    return *reinterpret_cast<const T*>(p);
}

// Scope object that gives the calling thread's atomic operations block scope until it is destroyed.
struct BlockScope {
    __attribute__((always_inline)) BlockScope() { kw_block_scope(1); }
    __attribute__((always_inline)) ~BlockScope() { kw_block_scope(0); }
};

// Atomic load. A read, or an atomic operation that changes nothing, may be part of a waiting loop, so kw_poll lets
// other threads run.
template <class T> KW_PTX T load_atomically(T* p) {
    const WordOf<T> word = __atomic_load_n(reinterpret_cast<WordOf<T>*>(p), __ATOMIC_SEQ_CST);
    kw_poll(p, word);
    return as<T>(word);
}
template <class T> KW_PTX void store_atomically(T* p, T value) {
    __atomic_store_n(reinterpret_cast<WordOf<T>*>(p), as<WordOf<T>>(value), __ATOMIC_SEQ_CST);
}

// Replaces the value at the address by update(old) and returns old. Starts from a guess, as in device_atomic.h.
template <class T, class Update>
KW_PTX T atomic_update(char* address, Update update) {
    WordOf<T>* word = reinterpret_cast<WordOf<T>*>(address);
    WordOf<T> old = 0;
    WordOf<T> wanted;
    do {
        wanted = as<WordOf<T>>(static_cast<T>(update(as<T>(old))));
    } while (!__atomic_compare_exchange_n(word, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (wanted == old) kw_poll(address, old);
    return as<T>(old);
}

KW_PTX float wrapping_sum(float a, float b) { return a + b; }
KW_PTX double wrapping_sum(double a, double b) { return a + b; }
KW_PTX uint32_t wrapping_sum(uint32_t a, uint32_t b) { return a + b; }
KW_PTX uint64_t wrapping_sum(uint64_t a, uint64_t b) { return a + b; }
KW_PTX int32_t wrapping_sum(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
KW_PTX int64_t wrapping_sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

#define KW_PTX_ATOMIC(name, expression)                                              \
    template <class T> KW_PTX T atomic_##name(char* address, T value) {              \
        return atomic_update<T>(address, [=](T old) -> T { return expression; });    \
    }
KW_PTX_ATOMIC(add, wrapping_sum(old, value))
KW_PTX_ATOMIC(min, value < old ? value : old)
KW_PTX_ATOMIC(max, value > old ? value : old)
KW_PTX_ATOMIC(and, old& value)
KW_PTX_ATOMIC(or, old | value)
KW_PTX_ATOMIC(xor, old ^ value)
KW_PTX_ATOMIC(inc, old >= value ? T{0} : static_cast<T>(old + 1))
KW_PTX_ATOMIC(dec, old == 0 || old > value ? value : static_cast<T>(old - 1))
#undef KW_PTX_ATOMIC

#define KW_PTX_ATOMIC_HALVES(name, operation)                                                                     \
    KW_PTX uint16_t atomic_##name##_f16(char* address, uint16_t value) {                                          \
        return atomic_update<uint16_t>(                                                                           \
            address, [=](uint16_t old) { return f16_bits(operation(f16_value(old), f16_value(value))); });        \
    }                                                                                                             \
    KW_PTX uint16_t atomic_##name##_bf16(char* address, uint16_t value) {                                         \
        return atomic_update<uint16_t>(                                                                           \
            address, [=](uint16_t old) { return bf16_bits(operation(bf16_value(old), bf16_value(value))); });     \
    }                                                                                                             \
    KW_PTX uint32_t atomic_##name##_f16x2(char* address, uint32_t value) {                                        \
        return atomic_update<uint32_t>(address, [=](uint32_t old) {                                               \
            return pair(f16_bits(operation(f16_value(low(old)), f16_value(low(value)))),                          \
                        f16_bits(operation(f16_value(high(old)), f16_value(high(value)))));                       \
        });                                                                                                       \
    }                                                                                                             \
    KW_PTX uint32_t atomic_##name##_bf16x2(char* address, uint32_t value) {                                       \
        return atomic_update<uint32_t>(address, [=](uint32_t old) {                                               \
            return pair(bf16_bits(operation(bf16_value(low(old)), bf16_value(low(value)))),                       \
                        bf16_bits(operation(bf16_value(high(old)), bf16_value(high(value)))));                    \
        });                                                                                                       \
    }
KW_PTX_ATOMIC_HALVES(add, wrapping_sum)
KW_PTX_ATOMIC_HALVES(min, minimum)
KW_PTX_ATOMIC_HALVES(max, maximum)
#undef KW_PTX_ATOMIC_HALVES

template <class T> KW_PTX void note_attempt(bool changed, const char* address, T seen, int line) {
    if (!changed) {
        kw_spin(address, seen, line);
    } else if (kw_spinning) {
        kw_spin_over();
    }
}
template <class T> KW_PTX T atomic_cas(char* address, T expected, T desired, int line) {
    T old = expected;
    const bool swapped = __atomic_compare_exchange_n(reinterpret_cast<T*>(address), &old, desired, false,
                                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    note_attempt(swapped, address, old, line);
    return old;
}
template <class T> KW_PTX T atomic_exch(char* address, T desired, int line) {
    const T old = __atomic_exchange_n(reinterpret_cast<T*>(address), desired, __ATOMIC_SEQ_CST);
    note_attempt(old != desired, address, old, line);
    return old;
}

// cp.async of `bytes` bytes. Bytes from index `used` on become zero.
KW_PTX void copy_to_shared(char* to, const char* from, uint32_t bytes, uint32_t used) {
    kw_copy_async(to, from, bytes, used < bytes ? bytes - used : 0);
}
