// Reductions of bulk copies (cp.reduce.async.bulk). Part of kw/ptx.h.
#pragma once

// Updates each element of `to` atomically. Not instrumented, because the runtime has already checked the accesses.
template <class T, T (*Update)(char*, T)>
static __attribute__((unused, no_sanitize("thread"))) void reduce_all(char* to, const char* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
        T value;
        __builtin_memcpy(&value, from + at, sizeof value);
        Update(to + at, value);
    }
}
