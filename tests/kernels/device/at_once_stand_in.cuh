// at_once_sm90.cuh for the emulator without PTX, which has no clusters: nothing is done at once.
#include "../../../agent/kernels/matmul_fp32x3/csrc/product_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kMeetings = 0;

inline bool is_at_once(const Operands&, int64_t, int64_t, double) { return false; }
inline cudaError_t at_once(const Product&, int64_t, cudaStream_t) { return cudaErrorNotSupported; }

}  // namespace kernelwright::matmul
