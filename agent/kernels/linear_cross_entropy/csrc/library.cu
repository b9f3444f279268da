#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(linear_cross_entropy, forward, Forward)
