#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(gelu, forward, Forward)
KW_LAUNCHER(gelu, backward, Backward)
