#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(rms_norm, forward, Forward)
KW_LAUNCHER(rms_norm, backward, Backward)
KW_QUESTION(rms_norm, backward_workspace, Backward)
