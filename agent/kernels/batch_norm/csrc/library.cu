#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(batch_norm, forward, Forward)
KW_LAUNCHER(batch_norm, backward, Backward)
KW_QUESTION(batch_norm, backward_workspace, Backward)
