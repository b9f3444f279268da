// What a call of softmax's forward pass is, and what its kernels of rows and of columns share.
#pragma once

#include "../../csrc/async_copy.cuh"
#include "../../csrc/cluster_rows.cuh"
#include "../../csrc/short_rows.cuh"

namespace kernelwright::softmax {

struct Forward {
    const void* x;
    void* y;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kHeld = 32;         // elements of a row that a thread has in registers
constexpr int kShortPacks = 4;    // of a short row that a lane has in them
constexpr int kShortColumn = 32;  // elements of a column that a thread has in them
constexpr int kHeldColumn = 16;   // the same where several threads have a column
constexpr int64_t kManyColumns = 65536;  // that keep the SMs busy with a thread each

template <typename Arguments>
bool are_short_columns(const Arguments& args) {
    return args.inner > 1 && args.length <= kShortColumn && args.outer * args.inner >= kManyColumns;
}

// NaN for a row with inf, and for one of nothing but -inf, as in torch.
__device__ __forceinline__ float inverse(Partition all) { return isinf(all.max) ? NAN : 1.0f / all.sum; }

}  // namespace kernelwright::softmax
