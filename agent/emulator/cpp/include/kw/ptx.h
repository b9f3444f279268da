// What translated PTX calls: one small function for every instruction that is no C++ operator.
//
// The names follow the PTX ISA, and so do the corner cases: shifts by more than the width, NaN in min and
// max, rounding modes, saturation. Approximate functions are the accurate ones; a GPU's differ in the last
// places. Included by generated code only.
#pragma once

#include <stdint.h>

#include "kw/runtime.h"

#define KW_PTX static inline __attribute__((always_inline, unused))
#define KW_PTX_CALL static inline __attribute__((unused))
#define KW_PTX_THREAD(type, name) extern "C" __thread type name __attribute__((tls_model("initial-exec")))

// const, because a thread's indices never change while it runs.
KW_PTX_THREAD(const uint3, kw_thread_index);
KW_PTX_THREAD(const uint3, kw_block_index);
KW_PTX_THREAD(const uint3, kw_block_dim);
KW_PTX_THREAD(const uint3, kw_grid_dim);
KW_PTX_THREAD(const int, kw_lane);
KW_PTX_THREAD(char* const, kw_shared_base);
KW_PTX_THREAD(const int, kw_spinning);

// In a function that calls itself, as long as a call lasts.
struct Deeper {
    int bytes;
    Deeper(int more, int line) : bytes(more) { kw_stack(more, line); }
    ~Deeper() { kw_stack(-bytes, 0); }
};

#include "kw/ptx_value.h"
#include "kw/ptx_float.h"
#include "kw/ptx_integer.h"
#include "kw/ptx_memory.h"
#include "kw/ptx_warp.h"
