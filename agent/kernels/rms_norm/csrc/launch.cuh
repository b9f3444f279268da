#pragma once

#include "../../csrc/norm_tiled.cuh"
#include "../../csrc/row_norm_backward.cuh"
#include "../../csrc/row_norm_forward.cuh"

namespace kernelwright::rms_norm {

using Forward = RowForward;
using Backward = RowBackward;

inline cudaError_t forward(const Forward& args) {
    return is_tiled(args) ? launch_tiled<false>(args) : row_forward<false>(args);
}

inline cudaError_t backward(const Backward& args) { return row_backward<false>(args); }
inline int64_t backward_workspace(const Backward& args) { return row_backward_workspace(args); }

}  // namespace kernelwright::rms_norm
