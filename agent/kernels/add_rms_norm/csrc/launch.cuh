#pragma once

#include "../../csrc/row_norm_backward.cuh"
#include "../../csrc/row_norm_forward.cuh"

namespace kernelwright::add_rms_norm {

using Forward = AddRowForward;
using Backward = AddRowBackward;

inline cudaError_t forward(const Forward& args) { return add_row_forward<false>(args); }
inline cudaError_t backward(const Backward& args) { return add_row_backward<false>(args); }
inline int64_t backward_workspace(const Backward& args) { return add_row_backward_workspace(args); }

}  // namespace kernelwright::add_rms_norm
