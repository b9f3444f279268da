// Support for translated PTX: one small function for each PTX instruction that is no C++ operator.
//
// The names and the corner cases follow the PTX ISA: shifts by more than the width, NaN in min and max, rounding modes,
// saturation. Approximate sin, cos, lg2, ex2 and tanh deviate as on a GPU (approximate.h). The other approximate
// instructions are computed accurately. Only generated code includes this header.
#pragma once

#include <stdint.h>

#include "kw/runtime.h"

#define KW_PTX static inline __attribute__((always_inline, unused))
#define KW_PTX_CALL static inline __attribute__((unused))
#define KW_PTX_THREAD(type, name) extern "C" __thread type name __attribute__((tls_model("initial-exec")))

// The variables are const, because a thread's indices never change while it runs.
KW_PTX_THREAD(const uint3, kw_thread_index);
KW_PTX_THREAD(const uint3, kw_block_index);
KW_PTX_THREAD(const uint3, kw_block_dim);
KW_PTX_THREAD(const uint3, kw_grid_dim);
KW_PTX_THREAD(const int, kw_lane);
KW_PTX_THREAD(char* const, kw_shared_base);
KW_PTX_THREAD(const int, kw_spinning);

// Scope object that counts the stack of one call of a recursive function until it is destroyed.
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
