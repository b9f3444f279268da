#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(matmul, forward, Forward)
KW_QUESTION(matmul, forward_workspace, Forward)
