// log(sum(exp(x))) of [outer, length, inner] over length, forward and backward; one read of x.
#pragma once

#include "columns.cuh"
#include "rows.cuh"

namespace kernelwright::logsumexp {

// Launches by rows or columns. `are_aligned`: the rows of x and dx are aligned to vectors.
template <typename Arguments>
cudaError_t launch(const Arguments& args, bool are_aligned) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1) return launch_columns<T>(args);
        if (!are_aligned) return launch_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch(args, aligned(args.x)); }

inline cudaError_t backward(const Backward& args) { return launch(args, aligned(args.x) && aligned(args.dx)); }

}  // namespace kernelwright::logsumexp
