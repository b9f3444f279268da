#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(cross_entropy, forward, Forward)
KW_LAUNCHER(cross_entropy, backward, Backward)
