#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(logsumexp, forward, Forward)
KW_LAUNCHER(logsumexp, backward, Backward)
