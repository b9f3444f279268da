#include "../../csrc/library.cuh"
#include "launch.cuh"
#include "rows.cuh"

KW_LAUNCHER(matmul_half, forward, Forward)
KW_LAUNCHER(matmul_half, copy_rows, Rows)
