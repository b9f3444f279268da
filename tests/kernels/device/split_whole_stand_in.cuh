// split_whole_sm90.cuh for the emulator without PTX, which has no clusters: b is read twice.
#include "../../../agent/kernels/matmul_fp32x3/csrc/split_sm90.cuh"

namespace kernelwright::matmul {

inline bool splits_whole(const Operand&) { return false; }
inline cudaError_t split_whole(const Operands&, cudaStream_t) { return cudaErrorNotSupported; }

}  // namespace kernelwright::matmul
