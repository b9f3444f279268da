#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(matmul_half, forward, Forward)
