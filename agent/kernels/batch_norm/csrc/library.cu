#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(batch_norm, forward, Forward)
