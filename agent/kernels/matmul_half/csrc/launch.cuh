// The launcher: classifies the layouts and chooses the path.
//
// KW_PORTABLE_ONLY leaves out all code for sm_90a, for compilers that do not support it.
#pragma once

#include "product_sm80.cuh"
#ifndef KW_PORTABLE_ONLY
#include "product_sm90.cuh"
#endif

namespace kernelwright::matmul_half {

// Layout of an operand's 16-bit elements.
struct Layout {
    bool across;     // contiguous along rows and not along K
    bool by_eights;  // allows copies of 16 bytes
};

inline Layout layout_of(const void* values, int64_t batch_step, int64_t row_step, int64_t depth_step) {
    const bool across = row_step == 1 && depth_step != 1;
    const int64_t along = across ? row_step : depth_step, other = across ? depth_step : row_step;
    return {across, along == 1 && other % kEight == 0 && batch_step % kEight == 0 && aligned(values)};
}

// Returns the compute capability times 10, such as 80 for sm_80; 0 if the query fails.
inline int architecture_of(int64_t device) {
    int major = 0, minor = 0;
    const bool is_told =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, static_cast<int>(device)) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, static_cast<int>(device)) == cudaSuccess;
    return is_told ? 10 * major + minor : 0;
}

template <typename T>
cudaError_t multiply(const Forward& args, unsigned blocks) {
    const Layout a = layout_of(args.a, args.a_batch, args.a_row, args.a_depth);
    const Layout b = layout_of(args.b, args.b_batch, args.b_column, args.b_depth);
#ifndef KW_PORTABLE_ONLY
    if (a.by_eights && b.by_eights && architecture_of(args.device) == 90) {
        return sm90::multiply<T>(args, blocks, a.across, b.across);
    }
#endif
    const auto with = [&](auto kernel) {
        kernel<<<blocks, kThreads, 0, args.stream>>>(args, a.by_eights, b.by_eights);
        return cudaGetLastError();
    };
    if (a.across) return b.across ? with(matmul_half<T, true, true>) : with(matmul_half<T, true, false>);
    return b.across ? with(matmul_half<T, false, true>) : with(matmul_half<T, false, false>);
}

// Launches the product. Returns cudaErrorNotSupported below sm_80.
inline cudaError_t forward(const Forward& args) {
    const int64_t tiles = args.batch * ((args.m + kSide - 1) / kSide) * ((args.n + kSide - 1) / kSide);
    if (tiles > kMaxGrid || args.k > kMaxGrid) return cudaErrorInvalidValue;
    if (architecture_of(args.device) < 80) return cudaErrorNotSupported;
    if (args.dtype == kFloat16) return multiply<__half>(args, static_cast<unsigned>(tiles));
    if (args.dtype == kBFloat16) return multiply<__nv_bfloat16>(args, static_cast<unsigned>(tiles));
    return cudaErrorInvalidValue;
}

}  // namespace kernelwright::matmul_half
