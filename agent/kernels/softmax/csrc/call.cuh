// Arguments of softmax's forward pass, and code that its kernels for rows and columns share.
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

constexpr int kHeld = 32;         // elements of a row in a thread's registers
constexpr int kShortPacks = 4;    // packs of a short row in a lane's registers
constexpr int kShortColumn = 32;  // elements of a column in a thread's registers
constexpr int kLongColumn = 48;   // elements of a column in a thread's registers, in forward for float32
constexpr int kHeldColumn = 16;   // elements of a column in a thread's registers if several threads share it
constexpr int kWholeColumnThreads = 128;  // threads of a block, if each handles whole columns
constexpr int64_t kManyColumns = 65536;  // columns that keep the SMs busy with one thread per column

// Calls start(N, V, columns) if each thread handles V whole columns of up to N elements, at most kLongest. Calls
// otherwise() if there are fewer columns or longer ones.
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

// Returns 1 / sum. NaN for a row with inf and for a row of -inf only, as in torch.
__device__ __forceinline__ float inverse(Partition all) { return isinf(all.max) ? NAN : inverse_of_sum(all.sum); }

}  // namespace kernelwright::softmax
