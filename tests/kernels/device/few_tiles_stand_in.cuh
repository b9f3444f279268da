// few_tiles_sm90.cuh for the emulator without PTX, which has no clusters: no product is one of few tiles.
#include "../../../agent/kernels/matmul_fp32x3/csrc/product_sm90.cuh"
#include "../../../agent/kernels/matmul_fp32x3/csrc/split_once_sm90.cuh"

namespace kernelwright::matmul {

inline bool is_few(const Operands&, int64_t, int64_t, double) { return false; }
inline cudaError_t few_tiles(const Product&, cudaStream_t) { return cudaErrorNotSupported; }

}  // namespace kernelwright::matmul
