// Asynchronous copies as functions (__pipeline_*). Replaces NVIDIA's header, which is inline PTX.
#pragma once

#include "kw/device.h"

KW_DEVICE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    kw_copy_async(to, from, bytes, zeros);
}
KW_DEVICE void __pipeline_commit() { kw_commit_copies(); }
KW_DEVICE void __pipeline_wait_prior(size_t prior) { kw_wait_copies(static_cast<unsigned>(prior)); }
