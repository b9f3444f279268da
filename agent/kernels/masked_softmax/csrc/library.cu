#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(masked_softmax, forward, Forward)
KW_LAUNCHER(masked_softmax, backward, Backward)
