#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(softmax, forward, Forward)
KW_LAUNCHER(softmax, backward, Backward)
