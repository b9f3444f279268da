// Arguments of logsumexp, forward and backward: log(sum(exp(x))) of [outer, length, inner] over length.
#pragma once

#include "../../csrc/partition.cuh"

namespace kernelwright::logsumexp {

struct Forward {
    const void* x;
    void* y;      // [outer, inner]
    float* exact;  // [outer, inner]: y before it is rounded to dtype; null if not wanted
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// Returns true if x is read with evict-first. It is not if a gradient follows, which reads x again, from the last row
// on.
template <typename T>
bool streams(const Forward& args) {
    return args.exact == nullptr && is_streamed(args.outer * args.length * args.inner * int64_t{sizeof(T)}, args.device);
}

// Arguments of dx = dy * exp(x - exact).
struct Backward {
    const void* dy;  // [outer, inner]
    const void* x;
    const float* exact;
    void* dx;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// Returns logsumexp. An infinite maximum is the result, as in torch: the difference to it would be NaN.
__device__ __forceinline__ float result_of(Partition all) {
    return isinf(all.max) && !isnan(all.sum) ? all.max : all.max + logf(all.sum);
}

}  // namespace kernelwright::logsumexp
