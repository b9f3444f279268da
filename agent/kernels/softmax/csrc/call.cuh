// What a call of softmax's forward pass is, and what its kernels of rows and of columns share.
#pragma once

#include "../../csrc/async_copy.cuh"
#include "../../csrc/cluster_rows.cuh"
#include "../../csrc/short_rows.cuh"
#include "../../csrc/whole_columns.cuh"

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
constexpr int kLongColumn = 48;   // the same forward, of float32
constexpr int kHeldColumn = 16;   // the same where several threads have a column
constexpr int kWholeColumnThreads = 128;  // of a block whose threads have columns of their own
constexpr int64_t kManyColumns = 65536;  // that keep the SMs busy with a thread each

// start(N, V, columns) where each thread takes V whole columns of up to N elements, kLongest at most; otherwise() for fewer or
// longer ones.
template <int kLongest, typename T, typename Arguments, typename Start, typename Otherwise>
cudaError_t by_whole_columns(const Arguments& args, bool are_aligned, Start start, Otherwise otherwise) {
    const bool are_many = args.outer * args.inner >= kManyColumns && are_narrow_columns(args.outer, args.inner);
    if (!are_many || args.length > kLongest) return otherwise();
    return by_beside<T>(args.outer, args.length, args.inner, are_aligned, [&](auto beside, const WholeColumns& columns) {
        if constexpr (beside > 1 || kBeside<T> == 1) {
            constexpr int kShortest = kShortColumn / 4;
            if (args.length <= kShortest) return start(std::integral_constant<int, kShortest>{}, beside, columns);
        }
        if constexpr (kLongest > kShortColumn) {
            if (args.length > kShortColumn) return start(std::integral_constant<int, kLongest>{}, beside, columns);
        }
        return start(std::integral_constant<int, kShortColumn>{}, beside, columns);
    });
}

// NaN for a row with inf, and for one of nothing but -inf, as in torch.
__device__ __forceinline__ float inverse(Partition all) { return isinf(all.max) ? NAN : inverse_of_sum(all.sum); }

}  // namespace kernelwright::softmax
